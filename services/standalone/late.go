package standalone

import (
	"context"
	"time"

	"github.com/garboard/garboard/libs/daemon"
)

// readyPoll is how often a service is asked whether it is ready.
const readyPoll = 20 * time.Millisecond

// service is a service that can report whether it is ready.
type service interface {
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
}

// late returns a part that can be created only when the parts before it run: the apiserver creates
// the other services' credentials when it starts.
func late(name string, open func() (service, error)) daemon.Part {
	opened := make(chan service, 1)
	return daemon.Part{
		Name: name,
		Run: func(ctx context.Context) error {
			s, err := open()
			if err != nil {
				return err
			}
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
