package standalone

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/informer/watcher"
)

// readyPoll is how often a service is asked whether it is ready.
const readyPoll = 20 * time.Millisecond

// service is the door of a service that tells when asked whether it is ready.
type service interface {
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
	Watchers() []watcher.Status
}

// watchers says what the services of the process follow, those that have started.
type watchers struct {
	mu       sync.Mutex
	services []service
}

func (w *watchers) add(s service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services = append(w.services, s)
}

func (w *watchers) all() []watcher.Status {
	w.mu.Lock()
	services := slices.Clone(w.services)
	w.mu.Unlock()
	var all []watcher.Status
	for _, s := range services {
		all = append(all, s.Watchers()...)
	}
	return all
}

// late is a part that can be made only when the parts before it run: the apiserver makes the
// others' credentials at its own start.
func (w *watchers) late(name string, open func() (service, error)) daemon.Part {
	opened := make(chan service, 1)
	return daemon.Part{
		Name: name,
		Run: func(ctx context.Context) error {
			s, err := open()
			if err != nil {
				return err
			}
			w.add(s)
			opened <- s
			return s.Run(ctx)
		},
		Ready: func(ctx context.Context) error {
			var s service
			select {
			case s = <-opened:
			case <-ctx.Done():
				return ctx.Err()
			}
			tick := time.NewTicker(readyPoll)
			defer tick.Stop()
			for s.Ready(ctx) != nil {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		},
	}
}
