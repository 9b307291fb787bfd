package standalone

import (
	"context"
	"time"

	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/service"
)

// readyPoll is how often a service is asked whether it is ready.
const readyPoll = 20 * time.Millisecond

// late returns a stage whose service can be created only when the stages before it run: the
// apiserver creates the other services' credentials when it starts.
func late(name string, open func() (service.Runner, error)) lifecycle.Stage {
	var s service.Runner
	return lifecycle.Stage{
		Name: name,
		Start: func(context.Context) (err error) {
			s, err = open()
			return err
		},
		Run: func(ctx context.Context) error { return s.Run(ctx) },
		Ready: func(ctx context.Context) error {
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
