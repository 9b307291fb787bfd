package report

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/informer/watcher"
)

const (
	// DefaultPatience is how long Ask waits for answers.
	DefaultPatience = 2 * time.Second
	// flushPatience is how long NATS may take to activate the subscription to the answers. Without
	// NATS, Ask returns after that, however long its own context lasts.
	flushPatience = 5 * time.Second
	// readyPatience is how long a process may take to find out why it is not ready.
	readyPatience = 300 * time.Millisecond
	// checksPatience is how long all its checks together may take.
	checksPatience = time.Second
	// maxReport limits a report, in bytes, and maxAnswers the number of reports: an apiserver keeps
	// many in memory.
	maxReport  = 256 << 10
	maxAnswers = 10_000
	// maxPending limits the answers that wait to be decoded, in bytes.
	maxPending = 64 << 20
	// maxToken limits the token of a question.
	maxToken = 64
)

// Conn is the bus; *bus.Conn implements it.
type Conn interface {
	Client() subject.Client
	MaxPayload() int64
	Publish(ctx context.Context, subject string, data []byte) error
	Subscribe(ctx context.Context, subject string, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error)
	Flush(ctx context.Context) error
}

// Self is what a process reports about itself.
type Self struct {
	// Service, Replica and Version are as in Report.
	Service, Replica, Version string
	// Ready returns the reason why the process is not ready; nil means that it always is.
	Ready func(ctx context.Context) error
	// Checks returns the results of an apiserver's /readyz checks; may be nil.
	Checks func(ctx context.Context) map[string]string
	// Certificates and Watchers return those of the process; may be nil.
	Certificates func() []Certificate
	Watchers     func() []watcher.Status
	// Logger logs failures to send a report; nil discards them.
	Logger *slog.Logger
	// Started is when the process began; if zero, when Serve was called.
	Started time.Time
}

// Report returns the present report.
func (s Self) Report(ctx context.Context) Report {
	r := Report{Service: s.Service, Replica: s.Replica, Version: s.Version, Started: s.Started}
	if s.Ready != nil {
		bounded, cancel := context.WithTimeout(ctx, readyPatience)
		if err := s.Ready(bounded); err != nil {
			r.NotReady = err.Error()
		}
		cancel()
	}
	if s.Checks != nil {
		bounded, cancel := context.WithTimeout(ctx, checksPatience)
		r.Checks = s.Checks(bounded)
		cancel()
	}
	if s.Certificates != nil {
		r.Certificates = s.Certificates()
	}
	if s.Watchers != nil {
		r.Watchers = s.Watchers()
	}
	r.Now = time.Now()
	return r
}

// Serve answers apiservers' requests for reports, until ctx ends.
func Serve(ctx context.Context, conn Conn, self Self) error {
	if self.Started.IsZero() {
		self.Started = time.Now()
	}
	if self.Logger == nil {
		self.Logger = slog.New(slog.DiscardHandler)
	}
	sub, err := conn.Subscribe(ctx, subject.Reports(), func(m bus.Message) {
		question := string(m.Data)
		if !isToken(question) {
			return
		}
		data, err := encode(self.Report(ctx), int(min(conn.MaxPayload(), maxReport)))
		if err == nil {
			err = conn.Publish(ctx, conn.Client().Report(question), data)
		}
		if err != nil && ctx.Err() == nil {
			self.Logger.WarnContext(ctx, "could not send the report of this process", "err", err)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribing to requests for reports: %w", err)
	}
	<-ctx.Done()
	sub.Unsubscribe()
	<-sub.Done()
	return nil
}

func isToken(text string) bool {
	for _, r := range text {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	return text != "" && len(text) <= maxToken
}

// encode encodes a report in at most limit bytes. If there is not room for all watchers, it omits
// those that are least behind.
func encode(r Report, limit int) ([]byte, error) {
	for {
		data, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encoding the report: %w", err)
		}
		if len(data) <= limit {
			return data, nil
		}
		if len(r.Watchers) == 0 {
			return nil, fmt.Errorf("the report has %d bytes, more than %d", len(data), limit)
		}
		if r.Omitted == 0 {
			r.Watchers = slices.Clone(r.Watchers)
			slices.SortStableFunc(r.Watchers, func(a, b watcher.Status) int {
				return cmp.Or(cmp.Compare(b.LagRevisions, a.LagRevisions), cmp.Compare(b.Queued, a.Queued))
			})
		}
		kept := len(r.Watchers) * limit / len(data) * 9 / 10
		r.Omitted += len(r.Watchers) - kept
		r.Watchers = r.Watchers[:kept]
	}
}

// Ask asks every process, and returns the reports that arrive within patience (DefaultPatience if
// 0). userOf returns the name of the user that an identity on the bus stands for.
func Ask(ctx context.Context, conn Conn, patience time.Duration, userOf func(identity string) string) ([]Answer, error) {
	if patience == 0 {
		patience = DefaultPatience
	}
	question := rand.Text()
	var mu sync.Mutex
	var lost error
	byInbox := map[string]Answer{}
	var began time.Time
	listening, stop := context.WithCancel(ctx)
	defer stop()
	sub, err := conn.Subscribe(listening, subject.AllReports(question), func(m bus.Message) {
		asker, err := subject.ParseClient(m.Subject)
		if err != nil {
			return
		}
		var r Report
		if len(m.Data) > maxReport || json.Unmarshal(m.Data, &r) != nil {
			return // It is not from a process of the plane.
		}
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		if _, again := byInbox[asker.Inbox]; again || len(byInbox) >= maxAnswers {
			return
		}
		took := now.Sub(began)
		a := Answer{Report: r, User: userOf(asker.Identity), Seconds: took.Seconds()}
		if !r.Now.IsZero() {
			a.Behind = now.Add(-took / 2).Sub(r.Now).Seconds()
		}
		byInbox[asker.Inbox] = a
	}, bus.Pending(maxAnswers, maxPending), bus.OnLoss(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		lost = err
	}))
	if err != nil {
		return nil, fmt.Errorf("subscribing to reports: %w", err)
	}
	defer func() { sub.Unsubscribe(); <-sub.Done() }()
	reached, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	if err := conn.Flush(reached); err != nil {
		return nil, fmt.Errorf("requesting reports: %w", err)
	}
	mu.Lock()
	began = time.Now()
	mu.Unlock()
	if err := conn.Publish(ctx, subject.Reports(), []byte(question)); err != nil {
		return nil, fmt.Errorf("requesting reports: %w", err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for reports: %w", ctx.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	if errors.Is(lost, bus.ErrDenied) {
		return nil, fmt.Errorf("subscribing to reports: %w", lost)
	}
	answers := make([]Answer, 0, len(byInbox))
	for _, a := range byInbox {
		answers = append(answers, a)
	}
	slices.SortFunc(answers, func(a, b Answer) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Replica, b.Replica), strings.Compare(a.User, b.User))
	})
	return answers, nil
}
