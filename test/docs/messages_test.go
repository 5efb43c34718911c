package docs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// troubleshooting lists messages and reasons with what to do about them.
const troubleshooting = root + "/docs/troubleshooting.md"

var (
	cell   = regexp.MustCompile(`^\|([^|]+)\|`)
	reason = regexp.MustCompile(`^[A-Z][a-z]+(?:[A-Z][A-Za-z]*)*$`)
	series = regexp.MustCompile(`_(?:bucket|count|sum)$`)
	// metric is one of ours; what the SDK counts has upstream's names.
	metric = regexp.MustCompile(`\bslipway_(?:agent|extension|host|hosts|lifecycle|plane|pool|watch)(?:_[a-z_]*[a-z])?\b`)
	// variable is read from the environment or replaced in templates.
	variable = regexp.MustCompile(`\bSLIPWAY_[A-Z][A-Z_]*[A-Z]\b`)
)

// Each message and reason that the index of troubleshooting names is in the code,
// word for word.
func TestMessages(t *testing.T) {
	inCode, quoted := literals(t), 0
	all := strings.Join(slices.Collect(maps.Keys(inCode)), "\x00")
	for _, l := range read(t, troubleshooting).lines {
		first := cell.FindStringSubmatch(l.text)
		if l.fenced || first == nil {
			continue
		}
		for _, match := range inlineCode.FindAllStringSubmatch(first[1], -1) {
			quoted++
			switch message := match[1]; {
			case reason.MatchString(message):
				if !inCode[message] {
					t.Errorf("docs/troubleshooting.md:%d: no code has the reason %s", l.number, message)
				}
			case len(strings.ReplaceAll(message, "…", "")) < 12:
				t.Errorf("docs/troubleshooting.md:%d: %q is too short to be found in a message", l.number, message)
			case !strings.Contains(all, message):
				t.Errorf("docs/troubleshooting.md:%d: no code says %q", l.number, message)
			}
		}
	}
	if quoted < 40 {
		t.Errorf("the index has only %d messages", quoted)
	}
}

// Metrics in documents exist, and docs/metrics.md has them all.
func TestMetrics(t *testing.T) {
	inCode, listed := map[string]bool{}, map[string]bool{}
	for path, text := range sources(t) {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "test/") {
			for _, name := range metric.FindAllString(text, -1) {
				// series of a histogram, which dashboards ask for
				inCode[series.ReplaceAllString(name, "")] = true
			}
		}
	}
	for _, d := range documents(t) {
		for _, l := range d.lines {
			for _, name := range metric.FindAllString(l.text, -1) {
				if !inCode[name] {
					t.Errorf("%s:%d: there is no metric %s", d.path, l.number, name)
				}
				if d.path == metricsPage {
					listed[name] = true
				}
			}
		}
	}
	for name := range inCode {
		if !listed[name] {
			t.Errorf("%s lacks the metric %s", metricsPage, name)
		}
	}
}

// Variables in documents are read or replaced somewhere.
func TestVariables(t *testing.T) {
	inCode := map[string]bool{}
	for _, text := range sources(t) {
		for _, name := range variable.FindAllString(text, -1) {
			inCode[name] = true
		}
	}
	for _, d := range documents(t) {
		for _, l := range d.lines {
			for _, name := range variable.FindAllString(l.text, -1) {
				if !inCode[name] {
					t.Errorf("%s:%d: nothing reads %s", d.path, l.number, name)
				}
			}
		}
	}
}
