// Package readiness says, for people, what a service that lives on informers waits for.
package readiness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// Informers are what a service has to have synced: an informer.Factory.
type Informers interface {
	// WaitForCacheSync waits until all hold a whole view.
	WaitForCacheSync(ctx context.Context) error
	// Watchers says how each of them is.
	Watchers() []watcher.Status
}

// Causes are what may keep informers from a whole view; each may be nil.
type Causes struct {
	// API asks whether the apiserver answers: nil, or why it does not.
	API func(ctx context.Context) error
	// NATS says why there is no connection; nil if there is one.
	NATS func() error
}

// Check waits for the informers until ctx ends, and gives nil when all hold a whole view. Else it
// names those that do not, in one line, and in one line each what may be the cause.
func Check(ctx context.Context, informers Informers, causes Causes) error {
	if len(missing(informers)) == 0 {
		return informers.WaitForCacheSync(ctx)
	}
	// The cause is looked for meanwhile, since no time is left for that afterwards.
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var cause error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if causes.API != nil {
			cause = causes.API(asking)
		}
	}()
	err := informers.WaitForCacheSync(ctx)
	if err == nil {
		stop()
		<-asked
		return nil
	}
	var reasons []error
	if names := missing(informers); len(names) > 0 {
		reasons = append(reasons, fmt.Errorf("informer of %s has no whole view yet", strings.Join(names, ", ")))
	} else {
		reasons = append(reasons, err)
	}
	<-asked
	reasons = append(reasons, cause)
	if causes.NATS != nil {
		reasons = append(reasons, causes.NATS())
	}
	return errors.Join(reasons...)
}

// missing are the resources of informers that hold no whole view.
func missing(informers Informers) []string {
	var names []string
	for _, w := range informers.Watchers() {
		if w.Synced {
			continue
		}
		name := w.Resource
		if w.Group != "" {
			name += "." + w.Group
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
