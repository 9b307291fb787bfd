package informer

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// DoneChecker is a named condition to wait for (client-go, tools/cache.DoneChecker).
type DoneChecker interface {
	// Name names the condition.
	Name() string
	// Done returns a channel that is closed when the condition is met.
	Done() <-chan struct{}
}

// IsDone reports whether the condition is met.
func IsDone(c DoneChecker) bool { return isClosed(c.Done()) }

// WaitFor waits until all checkers are done. Its error contains what, names the checkers that are
// not done, and wraps the cause of ctx's end.
func WaitFor(ctx context.Context, what string, checkers ...DoneChecker) error {
	for _, c := range checkers {
		select {
		case <-c.Done():
		case <-ctx.Done():
			if missing := undone(checkers); len(missing) > 0 {
				return fmt.Errorf("waiting for %s: %s not synced: %w", what, strings.Join(missing, ", "), context.Cause(ctx))
			}
			return nil
		}
	}
	return nil
}

func undone(checkers []DoneChecker) []string {
	var names []string
	for _, c := range checkers {
		if !IsDone(c) {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	return names
}

type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
