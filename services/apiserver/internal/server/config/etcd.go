package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Defaults of Etcd. The durations are Kubernetes' defaults.
const (
	DefaultEtcdPrefix             = "/registry"
	DefaultEtcdCompactionInterval = 5 * time.Minute
	DefaultEventTTL               = time.Hour
)

// Etcd configures the storage of the objects.
type Etcd struct {
	// Servers are etcd's client URLs; at least one.
	Servers []string
	// CAFile, CertFile and KeyFile are PEM files for TLS to etcd; empty for none.
	CAFile, CertFile, KeyFile string
	// ServersOverrides are resources with an etcd cluster of their own, in kube-apiserver's
	// notation: GROUP/RESOURCE#SERVERS, where SERVERS are URLs separated by semicolons. The same
	// certificates are used for them.
	ServersOverrides []string
	// CompactionInterval is for how long etcd keeps old revisions, so that clients can resume their
	// watches and continue their lists; 0 leaves the compaction of etcd to other programs.
	CompactionInterval time.Duration
	// EventTTL is how long events are kept; DefaultEventTTL if 0.
	EventTTL time.Duration
	// Prefix is the key prefix of all objects; DefaultEtcdPrefix if empty.
	Prefix string
}

// complete sets defaults and returns everything that is wrong.
func (e *Etcd) complete() error {
	var errs []error
	if len(e.Servers) == 0 {
		errs = append(errs, errors.New("no etcd server is set"))
	}
	if _, err := e.Overrides(); err != nil {
		errs = append(errs, err)
	}
	if e.CompactionInterval < 0 {
		errs = append(errs, fmt.Errorf("the compaction interval of etcd, %v, must not be negative", e.CompactionInterval))
	}
	if e.EventTTL == 0 {
		e.EventTTL = DefaultEventTTL
	}
	if e.EventTTL < 0 {
		errs = append(errs, fmt.Errorf("the lifetime of events, %v, must not be negative", e.EventTTL))
	}
	if e.Prefix == "" {
		e.Prefix = DefaultEtcdPrefix
	}
	return errors.Join(errs...)
}

// Overrides parses ServersOverrides.
func (e Etcd) Overrides() ([]store.Override, error) {
	var all []store.Override
	var errs []error
	for _, text := range e.ServersOverrides {
		o, err := store.ParseOverride(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("parsing an etcd server override: %w", err))
		}
		all = append(all, o)
	}
	return all, errors.Join(errs...)
}
