package join

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

// Options say which management cluster the host joins, and as what.
type Options struct {
	// Server is the https URL of the API server.
	Server string
	// CA verifies it, PEM.
	CA []byte
	// Token is a bootstrap token, id.secret.
	Token string
	// TokenFile is read for the token instead: a command line shows to every user of the
	// machine.
	TokenFile string
	// Namespace of the Host.
	Namespace string
	// HostName is the name of the Host; empty for the machine's own.
	HostName string
	// PublicKeyFile has the public keys of host bundles. A host that joins with it installs the
	// versions that are asked of it; one that joins without leaves them to its operator.
	PublicKeyFile string
	// ConfigPath is where the agent's configuration is, or will be.
	ConfigPath string
}

// Args is the command line of slipway-agent that joins a host, without words that a
// shell would take apart. The CA goes along whole: what a hash pins would first have to
// be fetched, and not every API server gives its CA to those it does not know.
func Args(o Options) ([]string, error) {
	der, err := decodePEM(o.CA)
	if err != nil {
		return nil, err
	}
	args := []string{"join", o.Server, "--namespace", o.Namespace}
	if o.TokenFile != "" {
		args = append(args, "--token-file", o.TokenFile)
	} else {
		args = append(args, "--token", o.Token)
	}
	args = append(args, "--ca-cert-data", base64.RawURLEncoding.EncodeToString(der))
	if o.HostName != "" {
		args = append(args, "--host-name", o.HostName)
	}
	if o.PublicKeyFile != "" {
		args = append(args, "--public-key", o.PublicKeyFile)
	}
	return args, nil
}

const usage = `Usage: slipway-agent join SERVER --token TOKEN --ca-cert-data DATA --namespace NAMESPACE

Verify the management cluster at SERVER and write the files this host enrolls with.
"slipway host token --join-command" prints the whole line.

Flags:
`

// Parse reads what follows "join". Asked for help it prints that to out and returns
// flag.ErrHelp.
func Parse(args []string, out io.Writer) (Options, error) {
	var o Options
	var ca string
	flags := flag.NewFlagSet("slipway-agent join", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.Token, "token", "", "bootstrap token")
	flags.StringVar(&o.TokenFile, "token-file", "", "file that holds the bootstrap token, such as /dev/stdin, in the place of --token")
	flags.StringVar(&ca, "ca-cert-data", "", "CA of the management cluster: DER certificates, as base64 for URLs")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the Host")
	flags.StringVar(&o.HostName, "host-name", "", "name of the Host; that of this machine when empty")
	flags.StringVar(&o.PublicKeyFile, "public-key", "", "file with the public keys of host bundles: the agent installs the Kubernetes versions that are asked of this host (software.management: Managed)")
	flags.StringVar(&o.ConfigPath, "config", config.DefaultPath, "file with the configuration of the agent; it is made if need be")
	// The server comes first, as in kubeadm join; the package flag ends at it.
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.Server, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("want one SERVER, before the flags, and no further arguments, not %q", flags.Args())
	}
	if err := o.readToken(); err != nil {
		return Options{}, err
	}
	der, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(ca, "="))
	if err != nil {
		return Options{}, fmt.Errorf("--ca-cert-data: %w; copy the whole line", err)
	}
	if o.CA, err = encodePEM(der); err != nil {
		return Options{}, fmt.Errorf("--ca-cert-data: %w; copy the whole line", err)
	}
	return o, o.validate()
}

func (o *Options) readToken() error {
	if o.TokenFile == "" {
		return nil
	}
	if o.Token != "" {
		return errors.New("--token-file: want it or --token, not both")
	}
	data, err := os.ReadFile(o.TokenFile)
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	o.Token = strings.TrimSpace(string(data))
	return nil
}

func (o Options) validate() error {
	var errs []error
	u, err := url.Parse(o.Server)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "":
		errs = append(errs, fmt.Errorf("SERVER: want an https URL, not %q", o.Server))
	case enroll.Loopback(o.Server):
		errs = append(errs, fmt.Errorf("SERVER: %s is this host's own loopback, where any program may listen; use the address by which hosts reach the management cluster", o.Server))
	}
	if !bootstraputil.IsValidBootstrapToken(o.Token) {
		errs = append(errs, errors.New("--token: want a bootstrap token, six characters, a dot, and sixteen"))
	}
	if len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		errs = append(errs, fmt.Errorf("--namespace: want the name of a namespace, not %q", o.Namespace))
	}
	if o.HostName != "" {
		if err := config.ValidateHostName(o.HostName); err != nil {
			errs = append(errs, fmt.Errorf("--host-name: %w", err))
		}
	}
	return errors.Join(errs...)
}

// decodePEM returns the certificates of a bundle one behind the other, as x509 reads them.
func decodePEM(bundle []byte) ([]byte, error) {
	var der []byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			der = append(der, block.Bytes...)
		}
	}
	if len(der) == 0 {
		return nil, errors.New("the CA holds no certificate")
	}
	_, err := x509.ParseCertificates(der)
	return der, err
}

func encodePEM(der []byte) ([]byte, error) {
	certificates, err := x509.ParseCertificates(der)
	if err != nil {
		return nil, err
	}
	if len(certificates) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	var bundle bytes.Buffer
	for _, c := range certificates {
		if !c.IsCA {
			return nil, fmt.Errorf("the certificate of %q is not that of a CA", c.Subject.CommonName)
		}
		if err := pem.Encode(&bundle, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return bundle.Bytes(), nil
}
