package logs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// longest line that is judged. A longer one is none that anybody reads.
const longest = 1 << 20

// texts are keys whose value is a text.
var texts = []string{"msg", "err", "claim", "operation", "phase", "step", "reason", "logger", "caller", "level", "controller", "reconcileID"}

// libraries are keys that libraries write their own way, by the file that writes them: none
// of it is about a host, a claim, an operation or a cluster.
var libraries = map[string][]string{
	"builder/webhook.go":       {"GVK"},
	"controller/controller.go": {"worker count"},
	"webhook/server.go":        {"host"}, // that it listens at
	// A probe that comes before the server is up (controller-runtime v0.24.1, healthz.go:60).
	"healthz/healthz.go": {"error"},
	// A runnable that fails while its manager ends (controller-runtime v0.24.1, runnable_group.go:275).
	"manager/runnable_group.go": {"error"},
	// A request that took too long, or whose handler panicked (k8s.io/apiserver v0.36.5, wrap.go:53 and 57).
	"filters/wrap.go": {"URI"},
	// Verbosity 4: a predicate that is made of others tells both.
	"predicates/cluster_predicates.go": {"predicate"},
}

// traces is the file that tells the steps of what took too long, such as the first list of a
// watch over ten seconds, a line each in one message (k8s.io/utils, trace.go:logTrace).
const traces = "trace/trace.go"

// storage are the loggers of etcd and of the API server's client of it, whose keys are their
// own: they are about storage and requests.
var storage = []string{"etcd", "etcd-client"}

// year2020 in milliseconds: a time in seconds, or since the start, is before it.
const year2020 = 1577836800000

// Line says what is wrong with one line; nothing when it is as documented, and has the keys
// that all lines of its program have.
func Line(line []byte, always ...string) (wrong []string) {
	fields, twice, err := parse(line)
	if err != nil {
		return []string{err.Error()}
	}
	caller, _ := fields["caller"].(string)
	place, _, _ := strings.Cut(caller, ":")
	if at, ok := fields["ts"].(float64); !ok || at < year2020 {
		wrong = append(wrong, fmt.Sprintf("ts is %v, want milliseconds since 1970", fields["ts"]))
	}
	if text, _ := fields["msg"].(string); strings.TrimSpace(text) == "" {
		wrong = append(wrong, fmt.Sprintf("msg is %v, want a text", fields["msg"]))
	} else if strings.ContainsAny(strings.TrimSpace(text), "\n\r") && place != traces {
		wrong = append(wrong, "msg has several lines")
	}
	// Kubernetes' loggers have a place, and a verbosity unless it is an error; the agent has a severity.
	_, placed := fields["caller"]
	if _, severe := fields["level"]; placed == severe {
		wrong = append(wrong, "want either caller or level")
	}
	if v, ok := fields["v"]; ok {
		if _, number := v.(float64); !number {
			wrong = append(wrong, fmt.Sprintf("v is %v, want a number", v))
		}
	}
	for _, key := range always {
		if _, ok := fields[key]; !ok {
			wrong = append(wrong, "has no "+key)
		}
	}
	logger, _ := fields["logger"].(string)
	for key, value := range fields {
		text := judge(key, value)
		if slices.Contains(twice, key) {
			text = "is there twice"
		}
		if text != "" && !slices.Contains(libraries[place], key) && !slices.Contains(storage, logger) {
			wrong = append(wrong, fmt.Sprintf("key %q: %s", key, text))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// judge a key with its value.
func judge(key string, value any) string {
	if text := Key(key); text != "" {
		return text
	}
	if _, ok := value.(string); slices.Contains(texts, key) && !ok {
		return fmt.Sprintf("is %v, want a text", value)
	}
	if !IsKind(key) {
		return ""
	}
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Sprintf("is a kind and has %v, want an object with name and namespace", value)
	}
	if name, _ := object["name"].(string); name == "" {
		return "is a kind whose object has no name"
	}
	for field := range object {
		if field != "name" && field != "namespace" {
			return fmt.Sprintf("is a kind whose object has the field %s", field)
		}
	}
	return ""
}

// parse reads one object that is all of a line. It returns the keys that it has twice, too:
// who reads it sees one of the values only.
func parse(line []byte) (fields map[string]any, twice []string, _ error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, nil, errNoObject
	}
	fields = map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, nil, errNoObject
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, nil, errNoObject
		}
		if _, known := fields[key]; known {
			twice = append(twice, key)
		}
		fields[key] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, nil, errNoObject
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errNoObject
	}
	return fields, twice, nil
}

var errNoObject = errors.New("is no JSON object")

// Judge judges all lines of a log. It returns how many there are, and each fault once, with
// the first line that has it and how many do.
func Judge(log io.Reader, always ...string) (lines int, wrong []string, _ error) {
	first, count := map[string]string{}, map[string]int{}
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, longest)
	for scanner.Scan() {
		lines++
		for _, fault := range Line(scanner.Bytes(), always...) {
			if count[fault]++; count[fault] == 1 {
				first[fault] = fmt.Sprintf("line %d: %.600s", lines, scanner.Bytes())
			}
		}
	}
	for fault, n := range count {
		wrong = append(wrong, fmt.Sprintf("%s (in %d lines), %s", fault, n, first[fault]))
	}
	slices.Sort(wrong)
	if err := scanner.Err(); err != nil {
		return lines, wrong, fmt.Errorf("line %d: %w", lines+1, err)
	}
	return lines, wrong, nil
}

// Check judges the log of a program, which has written one, all of whose lines have some keys.
func Check(t *testing.T, file string, always ...string) {
	t.Helper()
	log, err := os.Open(file)
	if err != nil {
		t.Errorf("the log cannot be judged: %v", err)
		return
	}
	defer func() { _ = log.Close() }()
	lines, wrong, err := Judge(log, always...)
	if err != nil || lines == 0 {
		t.Errorf("log %s: %d lines, %v", file, lines, err)
	}
	for _, fault := range wrong {
		t.Errorf("log %s: %s", file, fault)
	}
}
