package reset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/durable"
)

// record is what was on the host before a bootstrap. It is too large for the journal, which names
// it by its digest.
type record struct {
	// Version says what the agent that made the record looked at: see recordVersion.
	Version int `json:"version,omitempty"`
	// Traces maps kinds to their entries.
	Traces map[string]entries `json:"traces"`
	// Packages are those of dpkg: see packageVersions. Nil in records of version 1 and older.
	Packages map[string]string `json:"packages,omitempty"`
	// Homes are the home directories in which files are compared.
	Homes []string `json:"homes,omitempty"`
	// Contents are those of the configuration files that are small enough to be put back.
	Contents map[string][]byte `json:"contents,omitempty"`
}

// recordVersion counts what records gained: 1 has more places, and fingerprints with the number of a device, the
// attributes and owner of links, pipes and devices, and the inode of a file with several names; 2 has the packages of dpkg with
// their lists and scripts; 3 has rules of polkit and D-Bus, scripts of cloud-init and settings of systemd until the next boot; 4 has home directories
// and what a file is that a link leads to; 5 has entries of / and /mnt, what runtimes find first, who may change the files of accounts, more of logins, and
// services.
const recordVersion = 5

// of returns the entries of a trace; nil when nobody knows them.
func (r *record) of(t trace) entries {
	if r == nil {
		return nil
	}
	return r.Traces[t.kind]
}

// maxRecord bounds a record in memory, in bytes.
const maxRecord = 256 << 20

// errNone is a claim that an agent began which had no records yet.
var errNone = errors.New("an older agent bootstrapped the host, and kept no record of what it was before; look at the host, then clear the quarantine")

// lostError says that a baseline was recorded and cannot be read.
type lostError struct {
	path string
	err  error
}

// Error implements error.
func (e *lostError) Error() string {
	if errors.Is(e.err, errNone) {
		return operation.UnknownChanges + errNone.Error()
	}
	return fmt.Sprintf(operation.UnknownChanges+"the record of the host from before the bootstrap, %s, is lost (%v)", e.path, e.err)
}

// Unwrap returns the cause.
func (e *lostError) Unwrap() error { return e.err }

// keep writes a record and returns what the journal has of it.
func (c Cleaner) keep(rec *record) (*journal.Baseline, error) {
	before, err := c.readLogins()
	if err != nil {
		return nil, err
	}
	if rec.Contents, err = c.contents(rec.Traces[kindFile]); err != nil {
		return nil, err
	}
	coded := &record{Version: recordVersion, Traces: map[string]entries{}, Packages: c.packageVersions(nil), Homes: rec.Homes, Contents: each(rec.Contents, text, same[[]byte])}
	for kind, found := range rec.Traces {
		coded.Traces[kind] = each(found, text, text)
	}
	data, err := json.Marshal(coded)
	if err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer func() { _ = encoder.Close() }()
	packed := encoder.EncodeAll(data, nil)
	sum := sha256.Sum256(packed)
	name := hex.EncodeToString(sum[:])
	if err := os.MkdirAll(c.Records, 0o700); err != nil {
		return nil, err
	}
	if err := durable.Write(filepath.Join(c.Records, name), packed, 0o600); err != nil {
		return nil, fmt.Errorf("record what is on the host: %w", err)
	}
	return &journal.Baseline{Record: name, Interfaces: slices.Sorted(maps.Keys(rec.Traces[kindInterface])), Logins: before}, nil
}

// open returns the record of a baseline; nil where there is no baseline. A record that is lost or
// damaged, or that an older agent did not make, is a *lostError.
func (c Cleaner) open(b *journal.Baseline) (*record, error) {
	if b == nil {
		return nil, nil
	}
	if b.Record == "" {
		return nil, &lostError{err: errNone}
	}
	path := filepath.Join(c.Records, b.Record)
	packed, err := os.ReadFile(path)
	if err != nil {
		return nil, &lostError{path, err}
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != b.Record {
		return nil, &lostError{path, errors.New("it is damaged")}
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	data, err := decoder.DecodeAll(packed, nil)
	rec := &record{}
	if err == nil {
		err = json.Unmarshal(data, rec)
	}
	if err != nil {
		return nil, &lostError{path, err}
	}
	for kind, found := range rec.Traces {
		rec.Traces[kind] = each(found, untext, untext)
	}
	rec.Contents = each(rec.Contents, untext, same[[]byte])
	return rec, nil
}

// opened is the record of a host; nil when there is none, or it is lost.
func (c Cleaner) opened(state journal.State) *record {
	rec, err := c.open(state.Baseline)
	if err != nil {
		return nil
	}
	return rec
}

// Forget removes the records of former claims. The host was proved clean of them.
func (c Cleaner) Forget() error {
	found, err := os.ReadDir(c.Records)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range found {
		errs = append(errs, os.RemoveAll(filepath.Join(c.Records, e.Name())))
	}
	return errors.Join(errs...)
}
