package support

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/text"
)

// Bounds of a bundle.
const (
	// maxBundle is how much a bundle holds before compression.
	maxBundle = 512 << 20
	// reserved of it is for what is written last.
	reserved = 8 << 20
	// maxLog is how much of the end of one log it holds.
	maxLog = 16 << 20
)

// Options of a bundle.
type Options struct {
	// Namespace is the only one that is looked at; empty for all.
	Namespace string
	// Since is how far back logs and events go.
	Since time.Duration
	// Journals says whether the logs of local hosts belong to it.
	Journals bool
	// Now is when it is taken.
	Now time.Time
	// Versions of the program that takes it, by what they are of.
	Versions map[string]string
	// Progress is told what is being gathered.
	Progress func(stage string)
}

// collector gathers one bundle.
type collector struct {
	Options
	cluster *management.Cluster
	archive *archive
	clients *clients
	missing []string
}

// stages in the order in which a bundle is gathered: Secrets first, so that what is in them
// is found in all else.
var stages = []struct {
	name   string
	gather func(*collector, context.Context) error
}{
	{"connection", (*collector).connect},
	{"secrets", (*collector).secrets},
	{"objects", (*collector).objects},
	{"nodes", (*collector).nodes},
	{"logs", (*collector).logs},
	{"plane", (*collector).plane},
}

// Write writes a bundle of the management cluster. It returns what could not be had, which
// is told in the bundle, too; an error is one of writing. When ctx ends, what was gathered
// by then is the bundle.
func Write(ctx context.Context, out io.Writer, cluster *management.Cluster, report doctor.Report, o Options) (missing []string, err error) {
	c := &collector{Options: o, cluster: cluster, archive: newArchive(out, o.Now, maxBundle-reserved)}
	for _, stage := range stages {
		o.Progress(stage.name)
		if ctx.Err() != nil {
			c.lacks(stage.name, errors.New("the time for the bundle was over"))
			continue
		}
		if err := stage.gather(c, ctx); err != nil {
			return c.missing, err
		}
	}
	c.archive.left += reserved
	err = errors.Join(c.finish(report), c.archive.close())
	return c.missing, err
}

// finish writes what tells about the bundle as a whole.
func (c *collector) finish(report doctor.Report) error {
	report = c.clean(report)
	findings, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	versions, err := json.MarshalIndent(c.Versions, "", "  ")
	if err != nil {
		return err
	}
	for _, u := range report.Unread {
		c.missing = append(c.missing, "doctor did not look at "+u.Kind+": "+u.Message)
	}
	return errors.Join(
		c.archive.add("doctor.json", string(findings)+"\n"),
		c.archive.add("versions.json", string(versions)+"\n"),
		c.archive.add("missing.txt", strings.Join(append(c.missing, ""), "\n")),
		c.archive.add("summary.md", c.summary(report)),
	)
}

// clean is a report without secrets. They are taken out before it is encoded: in JSON some
// would look different.
func (c *collector) clean(report doctor.Report) doctor.Report {
	report.Findings, report.Unread = slices.Clone(report.Findings), slices.Clone(report.Unread)
	for i := range report.Findings {
		f := &report.Findings[i]
		f.Message, f.Next = c.archive.redact.Text(f.Message), c.archive.redact.Text(f.Next)
	}
	for i := range report.Unread {
		report.Unread[i].Message = c.archive.redact.Text(report.Unread[i].Message)
	}
	return report
}

// put adds a file. That the bundle is full is told, and no error.
func (c *collector) put(name, text string) error {
	err := c.archive.add(name, text)
	if errors.Is(err, errFull) {
		c.lacks(name, errFull)
		return nil
	}
	return err
}

// lacks notes what could not be had.
func (c *collector) lacks(what string, err error) {
	c.missing = append(c.missing, what+": "+text.OneLine(c.archive.redact.Text(err.Error())))
}

func (c *collector) summary(report doctor.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Support bundle of %s\n\nTaken at %s", c.cluster.Name, c.Now.UTC().Format(time.RFC3339))
	if c.Namespace != "" {
		fmt.Fprintf(&b, " of namespace %s", c.Namespace)
	}
	fmt.Fprintf(&b, "; logs and events of the last %s. Secrets were taken out; look through it all the same before you hand it on.\n\n## Findings\n\n", c.Since)
	page := display.NewPage(&b)
	doctor.Render(page, report, true)
	b.WriteString(page.String())
	b.WriteString("\n## Missing\n\n")
	for _, m := range c.missing {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	if len(c.missing) == 0 {
		b.WriteString("Nothing.\n")
	}
	b.WriteString(layout)
	return b.String()
}

const layout = `
## What is where

| file | what |
|---|---|
| doctor.json | the findings, for programs |
| versions.json | versions of programs |
| objects/NAMESPACE/RESOURCE.yaml | objects of Cluster API and Slipway with their conditions, events, leases; of Secrets the names of their keys; _cluster for what has no namespace |
| clusters/NAMESPACE/NAME/nodes.yaml | Nodes of a workload cluster |
| logs/NAMESPACE/POD/CONTAINER.log | logs of the providers |
| plane/ | logs and metrics of a plane of this machine |
| hosts/HOST/ | logs of local hosts, with --host-journals |
| missing.txt | what could not be had, and why |
`
