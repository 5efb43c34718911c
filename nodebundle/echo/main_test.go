package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestGetPrintsTheHostNameServed(t *testing.T) {
	server := httptest.NewServer(handler("pod-1"))
	defer server.Close()

	var out bytes.Buffer
	if err := run(context.Background(), []string{"get", server.URL + "/any"}, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "pod-1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGetFailsOnAnErrorStatus(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()

	var out bytes.Buffer
	if err := run(context.Background(), []string{"get", server.URL}, &out); err == nil {
		t.Error("a 404 answer was taken for success")
	}
}

func TestRunRejectsUnknownArguments(t *testing.T) {
	if err := run(context.Background(), []string{"put"}, nil); err == nil {
		t.Error("an unknown argument was accepted")
	}
}
