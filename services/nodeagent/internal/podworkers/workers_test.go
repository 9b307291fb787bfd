package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// syncer records the steps and takes a second for each.
type syncer struct {
	mu    sync.Mutex
	steps []string
	// sync implements Sync; nil for an empty outcome.
	sync func(ctx context.Context) (podworkers.Outcome, error)
	// terminate implements Terminate.
	terminate func(ctx context.Context) error
	// unread returns why the runtime cannot read the pod; nil for a runtime that always can.
	unread func() error
}

func (s *syncer) note(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

func (s *syncer) Sync(ctx context.Context, kind podworkers.Kind, pod *corev1.Pod, _ *podstate.Pod) (podworkers.Outcome, error) {
	s.note(kind.String() + " " + pod.ResourceVersion)
	return s.sync(ctx)
}

func (s *syncer) Terminate(ctx context.Context, _ *corev1.Pod, _ *podstate.Pod, grace int64, _ *podworkers.Kill) error {
	s.note(fmt.Sprintf("terminate %d", grace))
	if s.terminate != nil {
		return s.terminate(ctx)
	}
	return nil
}

func (s *syncer) TerminateOrphan(context.Context, *corev1.Pod, *podstate.Pod) error {
	s.note("orphan")
	return nil
}

func (s *syncer) Terminated(context.Context, *corev1.Pod, *podstate.Pod) error {
	s.note("terminated")
	return nil
}

// cache is always current, except for a moment after each step. unread, unless nil, returns why a pod cannot be read.
type cache struct{ unread func() error }

func (c cache) NewerThan(ctx context.Context, uid string, t time.Time) (*podstate.Pod, error) {
	select {
	case <-time.After(time.Until(t.Add(10 * time.Millisecond))):
		state := &podstate.Pod{UID: uid}
		if c.unread != nil {
			state.Err = c.unread()
		}
		return state, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func pod(revision string) *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", ResourceVersion: revision},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
}

func deleted(revision string, grace int64) *corev1.Pod {
	p := pod(revision)
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	return p
}

// run tests workers in a synctest bubble.
func run(t *testing.T, s *syncer, test func(ws *podworkers.Workers)) { runWith(t, s, s, test) }

// runWith is run with workers that use another Syncer around s.
func runWith(t *testing.T, s *syncer, used podworkers.Syncer, test func(ws *podworkers.Workers)) {
	runFrom(t, s, used, func(*podworkers.Workers) {}, test)
}

// runFrom is runWith with workers that have been told something before they begin to work.
func runFrom(t *testing.T, s *syncer, used podworkers.Syncer, before, test func(ws *podworkers.Workers)) {
	synctest.Test(t, func(t *testing.T) {
		if s.sync == nil {
			s.sync = func(context.Context) (podworkers.Outcome, error) {
				time.Sleep(time.Second)
				return podworkers.Outcome{}, nil
			}
		}
		ws := podworkers.New(podworkers.Config{Syncer: used, Cache: cache{s.unread}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Unread: func(pod *corev1.Pod, err error) { s.note("unread " + pod.ResourceVersion + " " + err.Error()) }})
		before(ws)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- ws.Run(ctx) }()
		test(ws)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (s *syncer) want(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.steps, want) {
		t.Errorf("steps %q, want %q", s.steps, want)
	}
}

func TestOnlyTheLastUpdateIsKept(t *testing.T) {
	s := &syncer{}
	run(t, s, func(ws *podworkers.Workers) {
		ws.Update(pod("1"), podworkers.Create)
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		for _, revision := range []string{"2", "3", "4"} {
			ws.Update(pod(revision), podworkers.Update)
		}
		time.Sleep(10 * time.Second)
		s.want(t, "create 1", "update 4")
	})
}

func TestAKillIsNotOverwritten(t *testing.T) {
	s := &syncer{}
	s.sync = func(ctx context.Context) (podworkers.Outcome, error) {
		<-ctx.Done() // A sync that never ends is cut short by the kill.
		return podworkers.Outcome{}, ctx.Err()
	}
	run(t, s, func(ws *podworkers.Workers) {
		ws.Update(pod("1"), podworkers.Create)
		time.Sleep(time.Second)
		ws.Update(deleted("2", 7), podworkers.Update)
		ws.Update(pod("1"), podworkers.Update)
		ws.Update(pod("1"), podworkers.Sync)
		time.Sleep(10 * time.Second)
		s.want(t, "create 1", "terminate 7", "terminated")
		if _, done := ws.Known("u"); !done {
			t.Error("the pod has not finished")
		}
		ws.Update(pod("3"), podworkers.Update)
		time.Sleep(10 * time.Second)
		s.want(t, "create 1", "terminate 7", "terminated")
	})
}

func TestGraceOnlyShrinks(t *testing.T) {
	s := &syncer{}
	s.terminate = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second):
			return nil
		}
	}
	run(t, s, func(ws *podworkers.Workers) {
		ws.Update(deleted("1", 30), podworkers.Create)
		time.Sleep(time.Second)
		ws.Update(deleted("2", 60), podworkers.Update)
		time.Sleep(time.Second)
		ws.Update(deleted("3", 0), podworkers.Update)
		time.Sleep(time.Minute)
		s.want(t, "terminate 30", "terminate 1", "terminated")
	})
}

func TestErrorsAreRetried(t *testing.T) {
	s := &syncer{}
	s.sync = func(context.Context) (podworkers.Outcome, error) { return podworkers.Outcome{}, errors.New("no") }
	run(t, s, func(ws *podworkers.Workers) {
		ws.Update(pod("1"), podworkers.Create)
		time.Sleep(time.Second)
		if due := ws.Due(time.Now()); len(due) != 0 {
			t.Error("the pod is due at once")
		}
		time.Sleep(16 * time.Second)
		due := ws.Due(time.Now())
		if len(due) != 1 {
			t.Fatal("the pod is not due after the retry period")
		}
		ws.Wake(string(due[0].UID))
		time.Sleep(time.Second)
		s.want(t, "create 1", "sync 1")
	})
}

// TestNothingIsDoneToAPodThatCannotBeRead: neither synced nor ended, until the runtime can read it.
func TestNothingIsDoneToAPodThatCannotBeRead(t *testing.T) {
	var readable atomic.Bool
	s := &syncer{unread: func() error {
		if readable.Load() {
			return nil
		}
		return errors.New("busy")
	}}
	run(t, s, func(ws *podworkers.Workers) {
		again := func() {
			time.Sleep(17 * time.Second)
			for _, due := range ws.Due(time.Now()) {
				ws.Wake(string(due.UID))
			}
			time.Sleep(5 * time.Second)
		}
		ws.Update(pod("1"), podworkers.Create)
		again()
		ws.Update(deleted("2", 3), podworkers.Update)
		again()
		told := []string{"unread 1 busy", "unread 1 busy", "unread 2 busy", "unread 2 busy"}
		s.want(t, told...)
		readable.Store(true)
		again()
		s.want(t, append(told, "terminate 3", "terminated")...)
	})
}

func TestAPodThatEndsByItself(t *testing.T) {
	s := &syncer{}
	s.sync = func(context.Context) (podworkers.Outcome, error) { return podworkers.Outcome{Terminal: true}, nil }
	run(t, s, func(ws *podworkers.Workers) {
		ws.Update(pod("1"), podworkers.Create)
		time.Sleep(time.Second)
		s.want(t, "create 1", "terminate 30", "terminated")
	})
}

func TestOrphans(t *testing.T) {
	s := &syncer{}
	run(t, s, func(ws *podworkers.Workers) {
		ws.KillOrphan(pod(""))
		time.Sleep(time.Second)
		s.want(t, "orphan")
		dropped, _ := ws.Forget(func(string) bool { return false })
		if !slices.Equal(dropped, []string{"u"}) {
			t.Errorf("dropped %q", dropped)
		}
		if known, _ := ws.Known("u"); known {
			t.Error("the orphan is still known")
		}
	})
}
