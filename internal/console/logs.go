package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/display"
)

const (
	logsPattern = "/hosts/{namespace}/{name}/logs"
	// logLines is how many lines of a log a page has.
	logLines = 1000
	// maxLogs is how many hosts have their log kept.
	maxLogs = 4
	// logPatience is how long an answer may take that does not follow a log; the other ends by its own limit.
	logPatience       = 2 * time.Minute
	logFollowPatience = 20 * time.Minute
)

var (
	logUnits  = []infrav1.HostLogUnit{infrav1.HostLogAgent, infrav1.HostLogKubelet, infrav1.HostLogContainerd, infrav1.HostLogKernel}
	logSinces = []string{"10m", "1h", "24h"}
	logRights = []right{onHosts("get"), onLogs("create"), onLogs("watch"), onLogs("delete")}
)

func onLogs(verb string) right { return right{verb, infrav1.GroupVersion.Group, "hostlogrequests"} }

// logs are what was read last of the log of each host, in memory alone.
type logs struct {
	mu   sync.Mutex
	kept []*hostLog
}

// hostLog is a log as its agent answers it.
type hostLog struct {
	change.LogQuery
	host   client.ObjectKey
	begun  time.Time
	cancel context.CancelFunc
	// done is closed when nothing comes any more, and the request is gone.
	done chan struct{}

	mu      sync.Mutex
	lines   []string
	missing int64
	ended   bool
	message string
	err     error
}

// add adds lines, of which the last logLines stay.
func (l *hostLog) add(missing int64, lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines, l.missing = append(l.lines, lines...), l.missing+missing
	over := max(0, len(l.lines)-logLines)
	for size := len(strings.Join(l.lines[over:], "")); size > infrav1.HostLogMaxText; over++ {
		size -= len(l.lines[over])
	}
	l.lines = slices.Clone(l.lines[over:])
}

func (l *hostLog) end(message string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.message, l.err = true, message, err
}

// of is the log of a host; nil when none was read.
func (l *logs) of(host client.ObjectKey) *hostLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.kept, func(k *hostLog) bool { return k.host == host }); i >= 0 {
		return l.kept[i]
	}
	return nil
}

// keep has a log in the place of the former one of its host; the oldest makes room for it.
func (l *logs) keep(added *hostLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := []*hostLog{added}
	for _, k := range l.kept {
		if k.host == added.host || len(kept) == maxLogs {
			k.cancel()
			continue
		}
		kept = append(kept, k)
	}
	l.kept = kept
}

// end ends all of them, on the hosts, too.
func (l *logs) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		k.cancel()
	}
	for _, k := range l.kept {
		<-k.done
	}
}

// logPage is a form, and what was read.
type logPage struct {
	Namespace, Name string
	Units           []infrav1.HostLogUnit
	Sinces          []string
	// Unit, Since and Follow are what the form has.
	Unit, Since string
	Follow      bool
	Command     string
	Missing     []string
	// Read is nil before anything was requested.
	Read *logRead
}

// logRead is a log as it is now.
type logRead struct {
	Unit infrav1.HostLogUnit
	// Begun is when it was requested.
	Begun time.Time
	Text  string
	Lines int
	// Open is true while lines may come; Follow while they come as they are written.
	Open, Follow bool
	// Dropped is how many lines there was no room for.
	Dropped int64
	// Message says why it ended early, and Failure why there is nothing.
	Message, Failure string
}

func (s *server) log(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	if err := v.read.Get(v.Context(), key, &infrav1.Host{}); err != nil {
		return "", nil, fmt.Errorf("host %s: %w", key, err)
	}
	q := v.URL.Query()
	p := logPage{
		Namespace: key.Namespace, Name: key.Name, Units: logUnits, Sinces: logSinces, Unit: cmp.Or(q.Get("unit"), string(infrav1.HostLogAgent)), Since: q.Get("since"),
		Follow: q.Get("follow") != "", Missing: s.missing(v.Context(), key.Namespace, logRights),
	}
	p.Command = fmt.Sprintf("slipway host logs %s %s --tail %d", key.Name, strings.ToLower(p.Unit), logLines)
	if p.Since != "" {
		p.Command += " --since " + p.Since
	}
	if p.Follow {
		p.Command += " -f"
	}
	p.Command += " -n " + key.Namespace
	if l := s.logs.of(key); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.Read = &logRead{
			Unit: l.Unit, Begun: l.begun, Text: display.Visible(strings.Join(l.lines, "")), Lines: len(l.lines), Open: !l.ended, Follow: l.Follow && !l.ended, Dropped: l.missing, Message: l.message,
		}
		if l.err != nil {
			p.Read.Failure = s.Explain(l.err).Error()
		}
	}
	return "Log of host " + key.Name, p, nil
}

// readLog has the agent of a host answer, in the place of the answer before; with stop it only ends that.
func (s *server) readLog(w http.ResponseWriter, r *http.Request) {
	key, form := keyOf(r), r.PostForm
	back := url.URL{Path: "/hosts/" + key.Namespace + "/" + key.Name + "/logs"}
	if form.Get("stop") != "" {
		if l := s.logs.of(key); l != nil {
			l.cancel()
		}
		http.Redirect(w, r, back.String(), http.StatusSeeOther)
		return
	}
	query := url.Values{}
	for _, name := range []string{"unit", "since", "follow"} {
		if value := form.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	back.RawQuery = query.Encode()
	q := change.LogQuery{Unit: infrav1.HostLogUnit(form.Get("unit")), Lines: logLines, Follow: form.Get("follow") != ""}
	if !slices.Contains(logUnits, q.Unit) {
		s.answer(w, r, pageFor(logsPattern), http.StatusBadRequest, fmt.Sprintf("%q is no part of a host that has a log: want one of %q", q.Unit, logUnits))
		return
	}
	if since := form.Get("since"); since != "" {
		var err error
		if q.Since, err = time.ParseDuration(since); err != nil || q.Since <= 0 {
			s.answer(w, r, pageFor(logsPattern), http.StatusBadRequest, fmt.Sprintf("%q is no time, such as 10m", since))
			return
		}
	}
	request, err := change.RequestLog(r.Context(), s.Client, key, q)
	if err != nil {
		s.answer(w, r, pageFor(logsPattern), statusOf(err), s.Explain(err).Error())
		return
	}
	patience := logPatience
	if q.Follow {
		patience = logFollowPatience
	}
	// It goes on while the page is rendered, until another log of the host is read or the console ends.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(r.Context()), patience, fmt.Errorf("no answer within %s: check that slipway-manager runs, in the version of this console", patience))
	l := &hostLog{LogQuery: q, host: key, begun: s.now(), cancel: cancel, done: make(chan struct{})}
	s.logs.keep(l)
	go func() {
		defer close(l.done)
		defer cancel()
		message, err := change.ReadLog(ctx, s.Client, request, func(missing int64, lines []string) error {
			l.add(missing, lines)
			s.reader.Touch()
			return nil
		})
		l.end(message, err)
		s.reader.Touch()
		_ = change.EndLog(ctx, s.Client, request) // slipway-manager deletes what stays
	}()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}
