package pleg_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/nodeagent/internal/pleg"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a container runtime.
type machine struct {
	mu         sync.Mutex
	containers []runtime.Container
	err        error
	lists      int
	// hasEvents reports that the runtime has events.
	hasEvents bool
	events    chan runtime.Event
}

func (m *machine) Containers(context.Context) ([]runtime.Container, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	return slices.Clone(m.containers), m.err
}

func (m *machine) Sandboxes(context.Context) ([]runtime.Sandbox, error) { return nil, nil }

func (m *machine) Events(ctx context.Context, handle func(runtime.Event)) error {
	if !m.hasEvents {
		return runtime.ErrUnsupported
	}
	for {
		select {
		case e := <-m.events:
			handle(e)
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *machine) set(err error, containers ...runtime.Container) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.containers, m.err = containers, err
}

func container(uid, id string, state runtime.ContainerState) runtime.Container {
	return runtime.Container{ID: id, PodUID: uid, Name: "c", State: state}
}

// run runs a PLEG in a synctest bubble; told returns the UIDs reported since its last call.
func run(t *testing.T, m *machine, test func(t *testing.T, p *pleg.PLEG, told func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		// Created in the bubble, so that time advances while it is waited for.
		m.events = make(chan runtime.Event)
		p := pleg.New(m, slog.New(slog.NewTextHandler(t.Output(), nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var changed []string
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for {
				select {
				case uid := <-p.Changed():
					mu.Lock()
					changed = append(changed, uid)
					mu.Unlock()
				case <-ctx.Done():
					return
				}
			}
		})
		test(t, p, func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			told := changed
			changed = nil
			return told
		})
		cancel()
		wg.Wait()
	})
}

func TestChangesAreTold(t *testing.T) {
	m := &machine{}
	run(t, m, func(t *testing.T, p *pleg.PLEG, told func() []string) {
		steps := []struct {
			name       string
			containers []runtime.Container
			want       []string
		}{
			{"nothing", nil, nil},
			{"a pod appears", []runtime.Container{container("u", "1", runtime.Running)}, []string{"u"}},
			{"nothing happens", []runtime.Container{container("u", "1", runtime.Running)}, nil},
			{"it ends", []runtime.Container{container("u", "1", runtime.Exited)}, []string{"u"}},
			{"it is started again between two lists", []runtime.Container{container("u", "2", runtime.Exited)}, []string{"u"}},
			{"it is removed", nil, []string{"u"}},
		}
		for _, s := range steps {
			m.set(nil, s.containers...)
			time.Sleep(pleg.Period + 100*time.Millisecond)
			if got := told(); !slices.Equal(got, s.want) {
				t.Errorf("%s: told %q, want %q", s.name, got, s.want)
			}
		}
	})
}

func TestARuntimeThatIsAwayLosesNothing(t *testing.T) {
	m := &machine{}
	m.set(nil, container("u", "1", runtime.Running))
	run(t, m, func(t *testing.T, p *pleg.PLEG, told func() []string) {
		told()
		m.set(errors.New("unavailable"))
		time.Sleep(5 * time.Second)
		if got := told(); len(got) != 0 || len(p.Pod("u").Containers) != 1 {
			t.Errorf("a failed list was used: told %q", got)
		}
		_, listed := p.Pods()
		if age := time.Since(listed); age < 4*time.Second {
			t.Errorf("the cache claims to be %v old", age)
		}
	})
}

func TestNewerThanWaits(t *testing.T) {
	m := &machine{}
	run(t, m, func(t *testing.T, p *pleg.PLEG, _ func() []string) {
		time.Sleep(100 * time.Millisecond)
		m.set(nil, container("u", "1", runtime.Running))
		pod, err := p.NewerThan(t.Context(), "u", time.Now())
		if err != nil || len(pod.Containers) != 1 {
			t.Errorf("an older state was returned: %+v, %v", pod, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		m.set(errors.New("unavailable"))
		go func() { time.Sleep(time.Minute); cancel() }()
		if _, err := p.NewerThan(ctx, "u", time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestEventsHasten(t *testing.T) {
	m := &machine{hasEvents: true}
	run(t, m, func(t *testing.T, _ *pleg.PLEG, told func() []string) {
		time.Sleep(100 * time.Millisecond)
		told()
		m.set(nil, container("u", "1", runtime.Running))
		m.events <- runtime.Event{ID: "1"}
		time.Sleep(50 * time.Millisecond)
		if got := told(); !slices.Equal(got, []string{"u"}) {
			t.Errorf("50 ms after an event told %q", got)
		}
	})
}

// TestAPodThatCannotBeRead: it stays as it was known, with the error, and others go on.
func TestAPodThatCannotBeRead(t *testing.T) {
	m := &machine{}
	m.set(nil, container("u", "1", runtime.Running), container("v", "2", runtime.Running))
	run(t, m, func(t *testing.T, p *pleg.PLEG, told func() []string) {
		told()
		unread := container("u", "1", runtime.Exited)
		unread.Err = errors.New("busy")
		m.set(nil, unread, container("v", "2", runtime.Exited))
		time.Sleep(pleg.Period + 100*time.Millisecond)
		if got := told(); !slices.Contains(got, "u") || !slices.Contains(got, "v") {
			t.Errorf("told %q, want both", got)
		}
		for range 2 {
			held := p.Pod("u")
			if held.Err == nil || len(held.Containers) != 1 || held.Containers[0].State != runtime.Running {
				t.Errorf("the pod is %+v", held)
			}
			if other := p.Pod("v"); other.Err != nil || other.Containers[0].State != runtime.Exited {
				t.Errorf("the other pod is %+v", other)
			}
			time.Sleep(pleg.Period)
			if got := told(); len(got) != 0 {
				t.Errorf("told %q although nothing changed", got)
			}
		}
		m.set(nil, container("u", "1", runtime.Running), container("v", "2", runtime.Exited))
		time.Sleep(pleg.Period)
		if got := told(); !slices.Equal(got, []string{"u"}) || p.Pod("u").Err != nil {
			t.Errorf("told %q when it can be read again: %+v", got, p.Pod("u"))
		}
	})
}
