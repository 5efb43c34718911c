package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// File is content with an address of its own, such as a file of an upstream release. It is for
// one goroutine, and as patient as a Repository.
type File struct{ server }

// NewFile makes a client for the file at Options.Address, an HTTPS address; plain HTTP is for the
// machine's own loopback. It sends nothing.
func NewFile(o Options) (*File, error) {
	address, err := url.Parse(o.Address)
	if err != nil || address.Host == "" || address.Scheme != "https" && (address.Scheme != "http" || !loopback(address.Host)) {
		return nil, fmt.Errorf("%q: want https://HOST/PATH", o.Address)
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	return &File{o.server(client, func(ctx context.Context, _ ocispec.Descriptor) (context.Context, string) { return ctx, o.Address })}, nil
}

// maxFile is more than any file of a release has, in bytes.
const maxFile = 1 << 30

// Size is how many bytes the file has, as its server says: nothing is signed, so that it may say anything.
func (f *File) Size(ctx context.Context) (size int64, err error) {
	f.busy = 0
	err = f.patiently(ctx, brief(func(ctx context.Context) error {
		response, err := f.send(ctx, http.MethodHead, nil)
		if err != nil {
			return err
		}
		size = response.ContentLength
		return response.Body.Close()
	}))
	switch {
	case err == nil && size < 0:
		err = fmt.Errorf("%s: the server does not say how large the file is", f)
	case err == nil && size > maxFile:
		err = &hostbundle.Error{Reason: hostbundle.ReasonCorrupt, Err: fmt.Errorf("%s: the server says that the file has %d MiB, more than any file of a release", f, size>>20)}
	}
	return size, found(err)
}

// Small reads a file that is no larger than hostbundle.MaxDocument, such as a checksum. With a
// body it posts that, as JSON. Nothing says that the content is right.
func (f *File) Small(ctx context.Context, body []byte) (data []byte, err error) {
	f.busy = 0
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	err = f.patiently(ctx, brief(func(ctx context.Context) error {
		response, err := f.send(ctx, method, body)
		if err != nil {
			return err
		}
		data, err = io.ReadAll(io.LimitReader(response.Body, hostbundle.MaxDocument+1))
		return errors.Join(err, response.Body.Close())
	}))
	if err == nil && len(data) > hostbundle.MaxDocument {
		err = &hostbundle.Error{Reason: hostbundle.ReasonCorrupt, Err: fmt.Errorf("%s: want at most %d bytes", f, hostbundle.MaxDocument)}
	}
	return data, found(err)
}

// Get fetches the file into a Staging under the digest that it must have, as Repository.Blob does.
func (f *File) Get(ctx context.Context, s hostbundle.Staging, d ocispec.Descriptor, progress func(have, size int64)) error {
	return found(f.Blob(ctx, s, d, progress))
}

// found gives a missing file its reason.
func found(err error) error {
	var missing *notFoundError
	if errors.As(err, &missing) {
		return &hostbundle.Error{Reason: hostbundle.ReasonNotFound, Err: err}
	}
	return err
}

func (f *File) send(ctx context.Context, method string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, f.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept-Encoding", "identity")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(answered(response), response.Body.Close())
	}
	return response, nil
}
