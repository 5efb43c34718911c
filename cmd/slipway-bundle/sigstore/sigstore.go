// Package sigstore verifies the signatures that upstream publishes beside its programs: a
// signature and a certificate as cosign writes them, with the entry of a transparency log that
// shows that the certificate was valid when the signature was made.
package sigstore

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"

	"crypto/x509"

	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekorpb "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/slipway-dev/slipway/internal/hostbundle/upstream"
)

// trustedRoot is that of the public Sigstore, from examples of sigstore-go.
//
//go:embed trusted-root.json
var trustedRoot []byte

// maxEntries bounds the entries of the log that are read for a file: anybody may add one.
const maxEntries = 64

// Verifier verifies signatures of one signer.
type Verifier struct {
	verifier *verify.Verifier
	identity verify.CertificateIdentity
	log      string
	send     Send
}

// Send reads an address; with a body it posts that, as JSON.
type Send func(ctx context.Context, url string, body []byte) ([]byte, error)

// Root reads a trust root as Sigstore publishes it; without a file that of the public Sigstore.
func Root(file string) (root.TrustedMaterial, error) {
	data := trustedRoot
	if file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	trusted, err := root.NewTrustedRootFromJSON(data)
	if err != nil {
		return nil, fmt.Errorf("trust root %s: %w", file, err)
	}
	return trusted, nil
}

// New makes a verifier. log is the address of the transparency log, whose entries need not be
// trusted. Certificates must be in a log of certificates if the trust root has one.
func New(trusted root.TrustedMaterial, signer upstream.Signer, log string, send Send) (*Verifier, error) {
	options := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithIntegratedTimestamps(1)}
	if len(trusted.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	verifier, err := verify.NewVerifier(trusted, options...)
	if err != nil {
		return nil, err
	}
	identity, err := verify.NewShortCertificateIdentity(signer.Issuer, "", signer.Identity, "")
	if err != nil {
		return nil, err
	}
	return &Verifier{verifier: verifier, identity: identity, log: log, send: send}, nil
}

// Verify returns nil if the signer signed the file. The log is asked for entries of the file's digest.
func (v *Verifier) Verify(ctx context.Context, s upstream.Signature) error {
	signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(s.Signature)))
	if err != nil {
		return fmt.Errorf("want a signature in base64: %w", err)
	}
	certificate, err := parseCertificate(s.Certificate)
	if err != nil {
		return err
	}
	sum, err := hex.DecodeString(s.SHA256.Encoded())
	if err != nil {
		return err
	}
	entries, err := v.entries(ctx, s)
	if err != nil {
		return fmt.Errorf("transparency log %s: %w", v.log, err)
	}
	policy := verify.NewPolicy(verify.WithArtifactDigest("sha256", sum), verify.WithCertificateIdentity(v.identity))
	errs := []error{}
	for _, entry := range entries {
		if !bytes.Equal(entry.Signature(), signature) {
			continue // of another signature of the same file
		}
		_, err := v.verifier.Verify(&signed{certificate: certificate, entry: entry,
			signature: bundle.NewMessageSignature(sum, "SHA2_256", signature)}, policy)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return fmt.Errorf("transparency log %s has no entry of this signature", v.log)
	}
	return errors.Join(errs...)
}

// parseCertificate takes PEM, and PEM in base64, which is what cosign writes.
func parseCertificate(data []byte) (*x509.Certificate, error) {
	data = bytes.TrimSpace(data)
	if decoded, err := base64.StdEncoding.DecodeString(string(data)); err == nil {
		data = decoded
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("want a certificate in PEM form, as it is or in base64")
	}
	return x509.ParseCertificate(block.Bytes)
}

// entries are those of the log for the digest of the file. What is not an entry of a signature is left out.
func (v *Verifier) entries(ctx context.Context, s upstream.Signature) ([]*tlog.Entry, error) {
	query, err := json.Marshal(map[string]string{"hash": s.SHA256.String()})
	if err != nil {
		return nil, err
	}
	data, err := v.send(ctx, v.log+"/api/v1/index/retrieve", query)
	if err != nil {
		return nil, err
	}
	var ids []string
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, fmt.Errorf("want a list of entries: %w", err)
	}
	var all []*tlog.Entry
	for _, id := range ids[:min(len(ids), maxEntries)] {
		data, err := v.send(ctx, v.log+"/api/v1/log/entries/"+url.PathEscape(id), nil)
		if err != nil {
			return nil, err
		}
		var found map[string]logEntry
		if err := json.Unmarshal(data, &found); err != nil {
			return nil, fmt.Errorf("entry %s: %w", id, err)
		}
		for _, e := range found {
			if entry, err := e.parse(); err == nil {
				all = append(all, entry)
			}
		}
	}
	return all, nil
}

// logEntry is an entry as Rekor's API has it.
type logEntry struct {
	Body           []byte `json:"body"`
	IntegratedTime int64  `json:"integratedTime"`
	LogID          string `json:"logID"`
	LogIndex       int64  `json:"logIndex"`
	Verification   struct {
		SignedEntryTimestamp []byte          `json:"signedEntryTimestamp"`
		InclusionProof       *inclusionProof `json:"inclusionProof"`
	} `json:"verification"`
}

type inclusionProof struct {
	Checkpoint string   `json:"checkpoint"`
	Hashes     []string `json:"hashes"`
	LogIndex   int64    `json:"logIndex"`
	RootHash   string   `json:"rootHash"`
	TreeSize   int64    `json:"treeSize"`
}

func (e logEntry) parse() (*tlog.Entry, error) {
	var kind struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(e.Body, &kind); err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(e.LogID)
	if err != nil {
		return nil, err
	}
	entry := &rekorpb.TransparencyLogEntry{
		LogIndex: e.LogIndex, LogId: &commonpb.LogId{KeyId: id}, KindVersion: &rekorpb.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		IntegratedTime: e.IntegratedTime, CanonicalizedBody: e.Body,
		InclusionPromise: &rekorpb.InclusionPromise{SignedEntryTimestamp: e.Verification.SignedEntryTimestamp},
	}
	if p := e.Verification.InclusionProof; p != nil {
		if entry.InclusionProof, err = p.parse(); err != nil {
			return nil, err
		}
	}
	return tlog.ParseTransparencyLogEntry(entry)
}

func (p inclusionProof) parse() (*rekorpb.InclusionProof, error) {
	root, err := hex.DecodeString(p.RootHash)
	if err != nil {
		return nil, err
	}
	hashes := make([][]byte, len(p.Hashes))
	for i, h := range p.Hashes {
		if hashes[i], err = hex.DecodeString(h); err != nil {
			return nil, err
		}
	}
	return &rekorpb.InclusionProof{LogIndex: p.LogIndex, RootHash: root, TreeSize: p.TreeSize, Hashes: hashes,
		Checkpoint: &rekorpb.Checkpoint{Envelope: p.Checkpoint}}, nil
}

// signed is a signature with its certificate and the entry of the log, which upstream
// publishes apart.
type signed struct {
	verify.BaseSignedEntity
	certificate *x509.Certificate
	signature   *bundle.MessageSignature
	entry       *tlog.Entry
}

func (s *signed) HasInclusionPromise() bool { return s.entry.HasInclusionPromise() }

func (s *signed) HasInclusionProof() bool { return s.entry.HasInclusionProof() }

func (s *signed) VerificationContent() (verify.VerificationContent, error) {
	return bundle.NewCertificate(s.certificate), nil
}

func (s *signed) SignatureContent() (verify.SignatureContent, error) { return s.signature, nil }

func (s *signed) Timestamps() ([][]byte, error) { return nil, nil }

func (s *signed) TlogEntries() ([]*tlog.Entry, error) { return []*tlog.Entry{s.entry}, nil }

// Version is that of bundles without a proof of inclusion, which need a promise.
func (s *signed) Version() (string, error) { return "0.1", nil }
