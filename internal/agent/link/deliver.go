package link

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// maxRefusal bounds what the Lease says of a refused report, in bytes.
const maxRefusal = 512

// part is a part of the report that can be left out by itself.
type part struct {
	field string
	clear func(*infrav1.HostStatus)
}

// parts are all of the report, the most important first: what the host does matters more than
// what it is.
var parts = []part{
	{"bootID", func(s *infrav1.HostStatus) { s.BootID = "" }},
	{"observedOperation", func(s *infrav1.HostStatus) { s.ObservedOperation = nil }},
	{"cleanProof", func(s *infrav1.HostStatus) { s.CleanProof = nil }},
	{"residue", func(s *infrav1.HostStatus) { s.Residue = nil }},
	{"record", func(s *infrav1.HostStatus) { s.Record = nil }},
	{"virtualIP", func(s *infrav1.HostStatus) { s.VirtualIP = nil }},
	{"inventory", func(s *infrav1.HostStatus) { s.Inventory = infrav1.HostInventory{} }},
	{"capacity", func(s *infrav1.HostStatus) { s.Capacity = nil }},
	{"node", func(s *infrav1.HostStatus) { s.Node = nil }},
	{"addresses", func(s *infrav1.HostStatus) { s.Addresses = nil }},
	{"software", func(s *infrav1.HostStatus) { s.Software = infrav1.HostSoftware{} }},
	{"agentUpdate", func(s *infrav1.HostStatus) { s.AgentUpdate = nil }},
	{"services", func(s *infrav1.HostStatus) { s.Services = nil }},
	{"lowDisk", func(s *infrav1.HostStatus) { s.LowDisk = nil }},
	{"rebootRequired", func(s *infrav1.HostStatus) { s.RebootRequired = nil }},
	{"endpointFailure", func(s *infrav1.HostStatus) { s.EndpointFailure = nil }},
	{"kubeletCertificateExpires", func(s *infrav1.HostStatus) { s.KubeletCertificateExpires = nil }},
	{"configurationErrors", func(s *infrav1.HostStatus) { s.ConfigurationErrors = nil }},
	{"observedOperation.message", ofOperation(func(o *infrav1.ObservedOperation) { o.Message = "" })},
	{"observedOperation.steps", ofOperation(func(o *infrav1.ObservedOperation) { o.Steps = nil })},
	{"inventory.hardware", func(s *infrav1.HostStatus) { s.Inventory.Hardware = infrav1.HostHardware{} }},
	{"omitted", func(s *infrav1.HostStatus) { s.Omitted = nil }},
}

func ofOperation(change func(*infrav1.ObservedOperation)) func(*infrav1.HostStatus) {
	return func(s *infrav1.HostStatus) {
		if s.ObservedOperation != nil {
			change(s.ObservedOperation)
		}
	}
}

// delivery is one report on its way to the API server. A part that the server refuses is left
// out, and the rest is tried again: a report that is refused whole would hide what the host does.
type delivery struct {
	*reporter
	// applied is what the server accepted last, and body what it accepted now.
	applied, body string
	left          []part
	why           []string
}

// deliver returns what the server accepted.
func (d *delivery) deliver(ctx context.Context, whole *infrav1.HostStatus) (*infrav1.HostStatus, error) {
	for {
		status := d.without(whole)
		err := d.write(ctx, status)
		if !refused(err) {
			return status, err
		}
		if !d.leaveOut(err) {
			return d.oneByOne(ctx, whole, err)
		}
	}
}

// oneByOne finds out what an error is about that names no part: it adds part by part to what the
// server accepts.
func (d *delivery) oneByOne(ctx context.Context, whole *infrav1.HostStatus, why error) (*infrav1.HostStatus, error) {
	candidates := slices.DeleteFunc(slices.Clone(parts), d.isLeft)
	d.left = slices.Clone(parts)
	accepted, status, err := 0, d.without(whole), why
	for _, p := range candidates {
		before := d.left
		d.left = slices.DeleteFunc(slices.Clone(before), func(l part) bool { return l.field == p.field })
		with := d.without(whole)
		if same(status, with) {
			continue
		}
		writeErr := d.write(ctx, with)
		switch {
		case writeErr == nil:
			accepted, status = accepted+1, with
		case !refused(writeErr):
			return nil, writeErr
		default:
			d.left, err = before, writeErr
			d.why = append(d.why, p.field+": "+writeErr.Error())
		}
	}
	if accepted == 0 {
		return nil, err
	}
	return status, nil
}

func same(a, b *infrav1.HostStatus) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && string(left) == string(right)
}

func (d *delivery) isLeft(p part) bool {
	return slices.ContainsFunc(d.left, func(l part) bool { return l.field == p.field })
}

// leaveOut leaves out the parts that an error names; false when it names none.
func (d *delivery) leaveOut(err error) bool {
	found := false
	text := err.Error()
	// The parts of parts come last, and are left out instead of the whole.
	for _, p := range slices.Backward(parts) {
		if d.isLeft(p) {
			continue
		}
		named := regexp.MustCompile(`\bstatus\.` + regexp.QuoteMeta(p.field) + `\b`)
		if !named.MatchString(text) {
			continue
		}
		text = named.ReplaceAllString(text, p.field)
		found = true
		d.left = append(d.left, p)
		d.why = append(d.why, p.field+": "+err.Error())
	}
	return found
}

func (d *delivery) without(whole *infrav1.HostStatus) *infrav1.HostStatus {
	status := whole.DeepCopy()
	for _, p := range d.left {
		p.clear(status)
	}
	return status
}

// write applies a status unless it is what was applied before.
func (d *delivery) write(ctx context.Context, s *infrav1.HostStatus) error {
	body, err := json.Marshal(s)
	if err != nil || string(body) == d.applied {
		d.body = d.applied
		return err
	}
	d.body = string(body)
	return d.hosts.ApplyHostStatus(ctx, &infrav1.Host{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "Host"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: d.name},
		Status:     *s,
	})
}

// refusals is what the Lease says about the report: empty when all of it was accepted.
func (d *delivery) refusals(err error) string {
	if err != nil {
		return operation.Truncate("the whole report: "+err.Error(), maxRefusal)
	}
	return operation.Truncate(strings.Join(d.why, "; "), maxRefusal)
}

// refused says that the API server does not take a report as it is, so that trying the same again
// does not help. An API of an earlier version than the agent's refuses fields that it lacks with the
// status of an internal error.
func refused(err error) bool {
	answer := apierrors.APIStatus(nil)
	if !errors.As(err, &answer) {
		return err != nil && undeclared(err)
	}
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsForbidden(err) && denied(err) || undeclared(err)
}

// denied says that admission is against the content. Rights that are missing come with the Host, a
// moment after the enrollment.
func denied(err error) bool { return strings.Contains(err.Error(), " denied ") }

func undeclared(err error) bool { return strings.Contains(err.Error(), "field not declared in schema") }
