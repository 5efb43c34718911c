package hostlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// What anybody wrote into a log neither steers a terminal nor keeps a credential, however long its lines are.
func TestHostileLines(t *testing.T) {
	secret := "s3cr3tValue" + strings.Repeat("x", 20)
	for name, tc := range map[string]struct {
		line string
		more int
		want string
	}{
		"plain":             {line: "a\tb\n", want: "a\tb\n"},
		"escape sequence":   {line: "\x1b[2Ja\r", want: `\u001b[2Ja` + "\n"},
		"C1 and direction":  {line: "\u009b2J\u202e\u2028", want: `\u009b2J\u202e\u2028` + "\n"},
		"not UTF-8":         {line: "a\xff\xfeb", want: `a\xff\xfeb` + "\n"},
		"replacement rune":  {line: "\ufffd", want: "\ufffd\n"},
		"credential":        {line: "token=" + secret, want: "token=REDACTED\n"},
		"cut credential":    {line: strings.Repeat("a", maxLine-10) + " token=" + secret, want: strings.Repeat("a", maxLine-10) + " token=RED… (5 more bytes)\n"},
		"long":              {line: strings.Repeat("a", maxLine+7), want: strings.Repeat("a", maxLine) + "… (7 more bytes)\n"},
		"long, cut before":  {line: "a", more: 70000, want: "a… (70000 more bytes)\n"},
		"cut within a rune": {line: strings.Repeat("a", maxLine-1) + "ä", want: strings.Repeat("a", maxLine-1) + "… (2 more bytes)\n"},
	} {
		a := &answer{}
		a.add([]byte(tc.line), tc.more)
		if _, text, _ := a.pending(); text != tc.want {
			t.Errorf("%s:\n%.200q\nwant\n%.200q", name, text, tc.want)
		}
	}
}

// The last lines are kept that fit, each has its number, and a line that came while earlier ones were
// written is in the next answer.
func TestAnswerIsBounded(t *testing.T) {
	a := &answer{}
	for i := range 300 {
		a.add(fmt.Appendf(nil, "%04d %s", i, strings.Repeat("a", 1000)), 0)
	}
	first, text, n := a.pending()
	if len(text) > infrav1.HostLogMaxText || len(text) < infrav1.HostLogMaxText-1100 || first != int64(301-n) || !strings.HasPrefix(text, fmt.Sprintf("%04d ", first-1)) || strings.Count(text, "\n") != n {
		t.Errorf("%d lines from %d, %d bytes: %.20q", n, first, len(text), text)
	}
	if !utf8.ValidString(text) {
		t.Error("not UTF-8")
	}
	a.add([]byte("late"), 0)
	a.drop(first, n)
	if first, text, n := a.pending(); first != 301 || text != "late\n" || n != 1 {
		t.Errorf("then %d lines from %d: %q", n, first, text)
	}
	if a.bytes != len("late\n") {
		t.Errorf("%d bytes are counted", a.bytes)
	}
}

// Of a log without an end only the last lines are redacted.
func TestKeptLinesAreBounded(t *testing.T) {
	a := &answer{}
	for i := range 300 {
		a.keep(fmt.Appendf(nil, "%04d %s\n", i, strings.Repeat("a", 1000)), 0)
	}
	if a.rawBytes > infrav1.HostLogMaxText || len(a.raw) > 262 {
		t.Errorf("%d lines are kept, %d bytes", len(a.raw), a.rawBytes)
	}
	a.process()
	if first, text, n := a.pending(); first != int64(301-n) || !strings.HasPrefix(text, fmt.Sprintf("%04d ", first-1)) || n < 255 {
		t.Errorf("%d lines from %d: %.20q", n, first, text)
	}
}

func TestReadLines(t *testing.T) {
	long := strings.Repeat("b", readLine)
	var lines []string
	var cut []int
	err := readLines(strings.NewReader("a\n\n"+long+"cc\n"+long+long+"\nlast"), func(line []byte, more int) {
		lines, cut = append(lines, strings.TrimSuffix(string(line), "\n")), append(cut, more)
	})
	if err != nil || !slices.Equal(lines, []string{"a", "", long, long, "last"}) || !slices.Equal(cut, []int{0, 0, 2, readLine, 0}) {
		t.Errorf("%d lines, %v cut, %v", len(lines), cut, err)
	}
}

// played is a management cluster with one request.
type played struct {
	mu sync.Mutex
	// forbidden is how many reads are refused before the right is there.
	forbidden int
	request   infrav1.HostLogRequest
	// maxFollowed replaces that of the agent.
	maxFollowed int
	writes      []infrav1.HostLogRequestStatus
	gone        bool
}

func (p *played) GetLogRequest(context.Context, string, string) (*infrav1.HostLogRequest, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forbidden--; p.forbidden >= 0 {
		return nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("not yet"))
	}
	return p.request.DeepCopy(), nil
}

func (p *played) PatchLogRequest(_ context.Context, _, _ string, status infrav1.HostLogRequestStatus) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	p.writes = append(p.writes, status)
	return nil
}

func (p *played) written() []infrav1.HostLogRequestStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes)
}

// run serves a Host that names the request, in a bubble. The function plays what happens.
func (p *played) run(t *testing.T, read func(context.Context, Query, func([]byte, int)) error, play func(a *Answerer)) []infrav1.HostLogRequestStatus {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Namespace: "a", HostName: "host-1", Requests: p, Read: read, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if p.maxFollowed > 0 {
			a.maxFollowed = p.maxFollowed
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			a.Run(ctx)
			close(done)
		}()
		a.Served(hostWith("request-1"))
		play(a)
		cancel()
		<-done
	})
	return p.written()
}

func hostWith(names string) *infrav1.Host {
	h := &infrav1.Host{}
	h.Name, h.CreationTimestamp = "host-1", metav1.NewTime(time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC)) // an hour before the bubble's clock
	if names != "" {
		h.Annotations = map[string]string{infrav1.LogRequestsAnnotation: names}
	}
	return h
}

func request(unit infrav1.HostLogUnit, mutate ...func(*infrav1.HostLogRequest)) infrav1.HostLogRequest {
	q := infrav1.HostLogRequest{Spec: infrav1.HostLogRequestSpec{HostName: "host-1", Unit: unit, RequestedBy: "ann"}}
	for _, m := range mutate {
		m(&q)
	}
	return q
}

func following(q *infrav1.HostLogRequest) { q.Spec.Follow = ptr.To(true) }

// A request is answered once, by one write that completes it, as soon as the agent may read it.
func TestAnswers(t *testing.T) {
	p := &played{request: request(infrav1.HostLogKubelet), forbidden: 3}
	reads := 0
	writes := p.run(t, func(_ context.Context, q Query, each func([]byte, int)) error {
		reads++
		if q.Unit != infrav1.HostLogKubelet || q.Lines != infrav1.HostLogDefaultLines || q.Follow {
			t.Errorf("%+v is read", q)
		}
		each([]byte("one"), 0)
		each([]byte("two"), 0)
		return nil
	}, func(a *Answerer) {
		time.Sleep(time.Minute)
		a.Served(hostWith("request-1"))
		a.Served(hostWith("request-1,other"))
		time.Sleep(time.Minute)
	})
	if reads != 2 { // the second one is other
		t.Errorf("%d reads", reads)
	}
	for _, w := range writes {
		if w.FirstLine != 1 || w.Text != "one\ntwo\n" || w.CompletionTime == nil || w.Message != "" {
			t.Errorf("written: %+v", w)
		}
	}
	if len(writes) != 2 {
		t.Errorf("%d writes", len(writes))
	}
}

// The log of another host, and from before the Host, is not read; an answer that an earlier agent began is ended.
func TestNotAnswered(t *testing.T) {
	refuse := func(context.Context, Query, func([]byte, int)) error {
		t.Error("a log is read")
		return nil
	}
	wait := func(*Answerer) { time.Sleep(time.Minute) }
	for name, mutate := range map[string]func(*infrav1.HostLogRequest){
		"of another host": func(q *infrav1.HostLogRequest) { q.Spec.HostName = "host-2" },
		"complete":        func(q *infrav1.HostLogRequest) { q.Status.CompletionTime = ptr.To(metav1.Now()) },
	} {
		p := &played{request: request(infrav1.HostLogAgent, mutate)}
		if writes := p.run(t, refuse, wait); len(writes) > 0 {
			t.Errorf("%s: %+v", name, writes)
		}
	}
	begun := &played{request: request(infrav1.HostLogAgent, func(q *infrav1.HostLogRequest) { q.Status.FirstLine = 1 })}
	if writes := begun.run(t, refuse, wait); len(writes) != 1 || writes[0].CompletionTime == nil || !strings.Contains(writes[0].Message, "started again") {
		t.Errorf("begun: %+v", writes)
	}
}

func TestSince(t *testing.T) {
	for name, tc := range map[string]struct {
		since int32
		want  time.Duration
	}{
		"all of the Host": {0, time.Hour}, "ten minutes": {600, 10 * time.Minute}, "before the Host": {7200, time.Hour},
	} {
		now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		a := New(Options{Now: func() time.Time { return now }})
		got := a.query(infrav1.HostLogRequestSpec{SinceSeconds: tc.since}, hostWith("").CreationTimestamp.Time).Since
		if now.Sub(got) != tc.want {
			t.Errorf("%s: since %s ago, want %s", name, now.Sub(got), tc.want)
		}
	}
}

// Lines that come are written once a second at most; the time limit ends the answer, and so do too many bytes.
func TestFollows(t *testing.T) {
	p := &played{request: request(infrav1.HostLogKubelet, following)}
	writes := p.run(t, func(ctx context.Context, _ Query, each func([]byte, int)) error {
		for i := 0; ctx.Err() == nil; i++ {
			each(fmt.Append(nil, i), 0)
			time.Sleep(100 * time.Millisecond)
		}
		return context.Cause(ctx)
	}, func(*Answerer) { time.Sleep(5 * time.Minute) })
	next := int64(1)
	for i, w := range writes {
		if w.Text != "" {
			if w.FirstLine != next {
				t.Errorf("answer %d begins with line %d, want %d", i, w.FirstLine, next)
			}
			next += int64(strings.Count(w.Text, "\n"))
		}
	}
	last := writes[len(writes)-1]
	if len(writes) < 55 || len(writes) > 61 || next < 601 || next > 603 || last.CompletionTime == nil || last.Message != "the time limit of 1m0s is over" {
		t.Errorf("%d writes, %d lines; the last: %+v", len(writes), next-1, last)
	}

	flood := &played{request: request(infrav1.HostLogKubelet, following), maxFollowed: infrav1.HostLogMaxText + 10*maxLine}
	writes = flood.run(t, func(ctx context.Context, _ Query, each func([]byte, int)) error {
		for ctx.Err() == nil {
			each(slices.Repeat([]byte("a "), maxLine/2), 0)
		}
		return context.Cause(ctx)
	}, func(*Answerer) { time.Sleep(time.Second) })
	if len(writes) != 1 || writes[0].Message != errFollowed.Error() || len(writes[0].Text) > infrav1.HostLogMaxText || writes[0].FirstLine < 2 {
		t.Errorf("%d writes of a flood", len(writes))
	}
}

// The reading of a log ends with the request: when the Host names it no longer, and when it is gone.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*played, *Answerer){
		"not named": func(_ *played, a *Answerer) { a.Served(hostWith("")) },
		"gone": func(p *played, _ *Answerer) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.gone = true
		},
	} {
		p, ended := &played{request: request(infrav1.HostLogKubelet, following)}, atomic.Bool{}
		p.run(t, func(ctx context.Context, _ Query, each func([]byte, int)) error {
			for ctx.Err() == nil {
				each([]byte("a"), 0)
				time.Sleep(time.Second)
			}
			ended.Store(true)
			return context.Cause(ctx)
		}, func(a *Answerer) {
			time.Sleep(10 * time.Second)
			end(p, a)
			time.Sleep(5 * time.Second)
			if !ended.Load() {
				t.Errorf("%s: the log is read still", name)
			}
		})
	}
}

func TestReadError(t *testing.T) {
	p := &played{request: request(infrav1.HostLogKernel)}
	writes := p.run(t, func(context.Context, Query, func([]byte, int)) error {
		return errors.New("broken, token=s3cr3tValue" + strings.Repeat("ä", 1000))
	}, func(*Answerer) { time.Sleep(time.Second) })
	if len(writes) != 1 || writes[0].CompletionTime == nil || !strings.HasPrefix(writes[0].Message, "broken, token=REDACTED") || len(writes[0].Message) > maxMessage {
		t.Errorf("written: %+v", writes)
	}
}

// An answer that the API server did not get is written again.
func TestEndIsWrittenAgain(t *testing.T) {
	p := &unsteady{played: played{request: request(infrav1.HostLogKubelet)}, fails: 3}
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Namespace: "a", HostName: "host-1", Requests: p, Now: time.Now, Log: slog.New(slog.DiscardHandler), Read: func(_ context.Context, _ Query, each func([]byte, int)) error {
			each([]byte("one"), 0)
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		a.Served(hostWith("request-1"))
		time.AfterFunc(time.Minute, cancel)
		a.Run(ctx)
	})
	if w := p.written(); len(w) != 1 || w[0].Text != "one\n" {
		t.Errorf("written: %+v", w)
	}
}

type unsteady struct {
	played
	fails int
}

func (u *unsteady) PatchLogRequest(ctx context.Context, namespace, name string, status infrav1.HostLogRequestStatus) error {
	if u.fails--; u.fails >= 0 {
		return http.ErrHandlerTimeout
	}
	return u.played.PatchLogRequest(ctx, namespace, name, status)
}

// The journal is read by journalctl's own options, and what that complains of is reported without what steers a terminal.
func TestJournal(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	q := Query{Unit: infrav1.HostLogKubelet, Since: time.Unix(1000, 0), Lines: 7, Follow: true}
	none := func([]byte, int) { t.Error("a line") }
	if err := Journal(t.Context(), q, none); err == nil || !strings.Contains(err.Error(), "no journalctl") {
		t.Errorf("without journalctl: %v", err)
	}
	play := func(script string) {
		if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	play(`echo "$@"; echo "mark=$SLIPWAY_AGENT_RUN"`)
	var lines []string
	if err := Journal(t.Context(), q, func(line []byte, _ int) { lines = append(lines, strings.TrimSpace(string(line))) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"--no-pager --quiet --output=short-iso --unit=kubelet --lines=7 --since=@1000 --follow", "mark="}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	play("printf '\\033[2Jbroken\\nmore\\n' >&2; exit 3")
	if err := Journal(t.Context(), q, none); err == nil || err.Error() != `journalctl ended with exit code 3: \u001b[2Jbroken` {
		t.Errorf("failed: %v", err)
	}
	play("echo begun; exec sleep 1000")
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	ended := errors.New("ended")
	if err := Journal(ctx, q, func([]byte, int) { cancel(ended) }); !errors.Is(err, ended) {
		t.Errorf("ended: %v", err)
	}
	if err := Journal(t.Context(), Query{Unit: "Other"}, none); err == nil {
		t.Error("an unknown log is read")
	}
}
