package informer

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// DoneChecker is something to wait for, with a name (client-go, tools/cache.DoneChecker).
type DoneChecker interface {
	// Name says what is waited for.
	Name() string
	// Done is closed when it has happened.
	Done() <-chan struct{}
}

// IsDone says whether it has happened.
func IsDone(c DoneChecker) bool { return isClosed(c.Done()) }

// WaitFor waits until all of checkers are done. Its error says what for, names those that
// are not done, and wraps the cause of ctx's end.
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
