package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// Informers are the informers that a service needs synced: an informer.Factory.
type Informers interface {
	// WaitForCacheSync waits until all informers hold a whole view.
	WaitForCacheSync(ctx context.Context) error
	// Watchers returns the status of each informer.
	Watchers() []watcher.Status
}

// causes are the possible reasons why informers lack a whole view; each may be nil.
type causes struct {
	// api asks whether the apiserver answers: nil, or the reason why it does not.
	api func(ctx context.Context) error
	// nats returns the reason why there is no connection; nil if there is one.
	nats func() error
}

// check waits for the informers until ctx ends, and returns nil when all hold a whole view.
// Otherwise it names those that do not, in one line, followed by one line for each possible cause.
func check(ctx context.Context, informers Informers, why causes) error {
	if len(missing(informers)) == 0 {
		return informers.WaitForCacheSync(ctx)
	}
	// Look for the cause meanwhile, since no time is left for that afterwards.
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var cause error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if why.api != nil {
			cause = why.api(asking)
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
	if why.nats != nil {
		reasons = append(reasons, why.nats())
	}
	return errors.Join(reasons...)
}

// missing returns the resources of informers that hold no whole view.
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
