package apiserver

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Defaults of WindowConfig.
const (
	DefaultWindowEvents = feed.DefaultWindowEvents
	DefaultWindowBytes  = feed.DefaultWindowBytes
)

// WindowConfig bounds the past that an apiserver remembers of each resource. An informer or a
// watch that was away for longer reads everything again.
type WindowConfig struct {
	// Events is how many changes of each resource are remembered; DefaultWindowEvents if 0. An
	// apiserver that starts reads them back from etcd, as far as etcd still has them.
	Events int
	// Bytes bounds the size, as it is in etcd, of what is remembered of each resource;
	// DefaultWindowBytes if 0.
	Bytes int
}

// complete fills in defaults and names what is wrong.
func (c *WindowConfig) complete() error {
	var errs []error
	if c.Events < 0 {
		errs = append(errs, fmt.Errorf("%d changes of a resource cannot be remembered", c.Events))
	}
	if c.Bytes < 0 {
		errs = append(errs, fmt.Errorf("%d bytes of the changes of a resource cannot be remembered", c.Bytes))
	}
	if c.Events == 0 {
		c.Events = DefaultWindowEvents
	}
	if c.Bytes == 0 {
		c.Bytes = DefaultWindowBytes
	}
	return errors.Join(errs...)
}

// history is how many of etcd's revisions a feed that starts reads back: those of all resources
// count, so there are more of them than changes of one.
func (c WindowConfig) history() int64 { return int64(max(feed.DefaultHistory, c.Events)) }
