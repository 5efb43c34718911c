package localetcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// requestTimeout bounds every request but a snapshot.
const requestTimeout = 10 * time.Second

// maxAnswer bounds an answer that is no snapshot, in bytes.
const maxAnswer = 1 << 20

// Flags of the member in its manifest.
const (
	listenFlag    = "--listen-client-urls="
	authorityFlag = "--trusted-ca-file="
	clientFlag    = "--advertise-client-urls="
	peerFlag      = "--initial-advertise-peer-urls="
	clusterFlag   = "--initial-cluster="
)

// Member is one member of the cluster.
type Member struct {
	// ID is a number in decimal.
	ID   string
	Name string
	// PeerURLs tell a member that has not started from others.
	PeerURLs []string
	// ClientURLs are empty while the member has not started yet.
	ClientURLs []string
	// Learner has no vote.
	Learner bool
}

// Client talks to the member of this host, and asks others for their health.
type Client struct {
	endpoint string
	// peer is the URL by which this member was added, others are where members serve clients
	// that were there before it.
	peer   string
	others []string
	http   *http.Client
}

// Connect makes a client for the member of a manifest. path turns a path of the host into
// one of this process. It sends nothing.
func Connect(manifest *corev1.Pod, path func(string) string) (*Client, error) {
	listen, authority := flag(manifest, listenFlag), flag(manifest, authorityFlag)
	endpoint, _, _ := strings.Cut(listen, ",")
	if endpoint == "" || authority == "" {
		return nil, fmt.Errorf("the manifest of etcd has no %s or %s", strings.TrimSuffix(listenFlag, "="), strings.TrimSuffix(authorityFlag, "="))
	}
	dir := filepath.Dir(authority)
	ca, err := os.ReadFile(path(authority))
	if err != nil {
		return nil, fmt.Errorf("the authority of etcd: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", authority)
	}
	pair, err := tls.LoadX509KeyPair(path(filepath.Join(dir, "healthcheck-client.crt")), path(filepath.Join(dir, "healthcheck-client.key")))
	if err != nil {
		return nil, fmt.Errorf("the certificate of health checks of etcd: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}},
		ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}
	peer, _, _ := strings.Cut(flag(manifest, peerFlag), ",")
	return &Client{endpoint: endpoint, peer: peer, others: others(manifest, peer), http: &http.Client{Transport: transport}}, nil
}

// others are the client URLs of the members that the manifest starts with, but for this one.
// kubeadm has all members serve clients at one port.
func others(manifest *corev1.Pod, own string) (urls []string) {
	client, err := url.Parse(flag(manifest, clientFlag))
	if err != nil {
		return nil
	}
	for member := range strings.SplitSeq(flag(manifest, clusterFlag), ",") {
		_, peer, _ := strings.Cut(member, "=")
		if at, err := url.Parse(peer); err == nil && at.Host != "" && peer != own {
			urls = append(urls, "https://"+net.JoinHostPort(at.Hostname(), client.Port()))
		}
	}
	return urls
}

// flag returns the value of a flag of the first container.
func flag(pod *corev1.Pod, prefix string) string {
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	for _, arg := range pod.Spec.Containers[0].Command {
		if value, found := strings.CutPrefix(arg, prefix); found {
			return value
		}
	}
	return ""
}

// Healthy returns an error unless the member at one of the URLs says that it serves; of
// the member of this host when there is none. A member without a leader does not.
func (c *Client) Healthy(ctx context.Context, urls ...string) error {
	if len(urls) == 0 {
		urls = []string{c.endpoint}
	}
	var errs []error
	for _, url := range urls {
		var health struct{ Health, Reason string }
		err := c.get(ctx, strings.TrimSuffix(url, "/")+"/health", &health)
		if err == nil && health.Health != "true" {
			err = fmt.Errorf("%s is not healthy: %.100s", url, health.Reason)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Version returns the version of the member of this host, such as 3.6.8.
func (c *Client) Version(ctx context.Context) (string, error) {
	var version struct {
		Server string `json:"etcdserver"`
	}
	return version.Server, c.get(ctx, c.endpoint+"/version", &version)
}

// Members lists the members of the cluster as the member of this host knows them.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	return c.members(ctx, c.endpoint, "{}")
}

func (c *Client) members(ctx context.Context, endpoint, request string) ([]Member, error) {
	var list struct {
		Members []struct {
			ID         string   `json:"ID"` //nolint:tagliatelle // etcd names it so.
			Name       string   `json:"name"`
			PeerURLs   []string `json:"peerURLs"`   //nolint:tagliatelle // etcd names it so.
			ClientURLs []string `json:"clientURLs"` //nolint:tagliatelle // etcd names it so.
			IsLearner  bool     `json:"isLearner"`
		} `json:"members"`
	}
	if err := c.post(ctx, endpoint+"/v3/cluster/member/list", request, &list); err != nil {
		return nil, err
	}
	members := make([]Member, 0, len(list.Members))
	for _, m := range list.Members {
		members = append(members, Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
	}
	return members, nil
}

// Leave takes the member of this host out of its cluster, by any member that answers. It does
// nothing when the member is not in the cluster any more, or is all of it. It fails while no
// majority agrees: whoever removes the data of a member that has a vote makes that majority
// smaller, and of two members ends it.
func (c *Client) Leave(ctx context.Context) error {
	if c.peer == "" {
		return fmt.Errorf("the manifest of etcd has no %s", strings.TrimSuffix(peerFlag, "="))
	}
	var errs []error
	for _, endpoint := range append([]string{c.endpoint}, c.others...) {
		err := c.leave(ctx, endpoint)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *Client) leave(ctx context.Context, endpoint string) error {
	// What one member knows by itself may be older than the vote of this one.
	members, err := c.members(ctx, endpoint, `{"linearizable":true}`)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(members, func(m Member) bool { return slices.Contains(m.PeerURLs, c.peer) })
	if own < 0 || len(members) == 1 {
		return nil
	}
	request, err := json.Marshal(map[string]string{"ID": members[own].ID})
	if err != nil {
		return err
	}
	var removed struct{}
	return c.post(ctx, endpoint+"/v3/cluster/member/remove", string(request), &removed)
}

// Size returns how large the database is, in bytes.
func (c *Client) Size(ctx context.Context) (int64, error) {
	var status struct {
		Size json.Number `json:"dbSize"`
	}
	if err := c.post(ctx, c.endpoint+"/v3/maintenance/status", "{}", &status); err != nil {
		return 0, err
	}
	return status.Size.Int64()
}

// Snapshot writes a snapshot of the database as of now. What was written is one only when
// there is no error: it ends in a digest of what is before, which is compared.
func (c *Client) Snapshot(ctx context.Context, w io.Writer) (size int64, _ error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+"/v3/maintenance/snapshot", strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("a snapshot was answered with %s", response.Status)
	}
	sum := &trailer{hash: sha256.New()}
	for parts := json.NewDecoder(response.Body); ; {
		var part struct {
			Result struct {
				Blob []byte `json:"blob"`
			} `json:"result"`
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		switch err := parts.Decode(&part); {
		case errors.Is(err, io.EOF):
			return size, sum.check()
		case err != nil:
			return size, fmt.Errorf("read a snapshot: %w", err)
		case part.Error != nil:
			return size, fmt.Errorf("etcd ended the snapshot: %.200s", part.Error.Message)
		}
		n, err := w.Write(part.Result.Blob)
		size += int64(n)
		if err != nil {
			return size, err
		}
		sum.add(part.Result.Blob)
	}
}

// trailer compares what came with the digest at its end.
type trailer struct {
	hash hash.Hash
	last []byte
}

func (t *trailer) add(data []byte) {
	t.last = append(t.last, data...)
	if more := len(t.last) - sha256.Size; more > 0 {
		t.hash.Write(t.last[:more])
		t.last = append([]byte(nil), t.last[more:]...)
	}
}

func (t *trailer) check() error {
	if !bytes.Equal(t.hash.Sum(nil), t.last) {
		return errors.New("the snapshot came incomplete: it does not end in its digest")
	}
	return nil
}

func (c *Client) get(ctx context.Context, url string, into any) error {
	// A member that is not healthy says why, with another status.
	return c.do(ctx, http.MethodGet, url, http.NoBody, into, http.StatusServiceUnavailable)
}

func (c *Client) post(ctx context.Context, url, request string, into any) error {
	return c.do(ctx, http.MethodPost, url, strings.NewReader(request), into)
}

// do decodes the answer when its status is 200 or one of the accepted.
func (c *Client) do(ctx context.Context, method, url string, body io.Reader, into any, accepted ...int) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK && !slices.Contains(accepted, response.StatusCode) {
		var refused struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(data, &refused)
		return fmt.Errorf("%s answers %s %.200s", url, response.Status, refused.Message)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s answers %s, which is no JSON: %w", url, response.Status, err)
	}
	return nil
}
