package config

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Defaults of Window.
const (
	DefaultWindowEvents = feed.DefaultWindowEvents
	DefaultWindowBytes  = feed.DefaultWindowBytes
)

// Window bounds how much of the past an apiserver remembers for each resource. An informer or
// a watch that was away for longer reads everything again.
type Window struct {
	// Events is how many changes of each resource are remembered; DefaultWindowEvents if 0. A
	// starting apiserver reads them back from etcd, as far as etcd still has them.
	Events int
	// Bytes bounds the size, as stored in etcd, of the remembered changes of each resource;
	// DefaultWindowBytes if 0.
	Bytes int
}

// complete sets defaults and returns everything that is wrong.
func (c *Window) complete() error {
	var errs []error
	if c.Events < 0 {
		errs = append(errs, fmt.Errorf("the window has %d events, must not be negative", c.Events))
	}
	if c.Bytes < 0 {
		errs = append(errs, fmt.Errorf("the window has %d bytes, must not be negative", c.Bytes))
	}
	if c.Events == 0 {
		c.Events = DefaultWindowEvents
	}
	if c.Bytes == 0 {
		c.Bytes = DefaultWindowBytes
	}
	return errors.Join(errs...)
}

// History returns how many of etcd's revisions a starting feed reads back. The revisions of all
// resources count, so there are more of them than changes of one resource.
func (c Window) History() int64 { return int64(max(feed.DefaultHistory, c.Events)) }
