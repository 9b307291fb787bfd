package config

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Overrides parses EtcdServersOverrides.
func (c Config) Overrides() ([]store.Override, error) {
	var all []store.Override
	var errs []error
	for _, text := range c.EtcdServersOverrides {
		o, err := store.ParseOverride(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("parsing an etcd server override: %w", err))
		}
		all = append(all, o)
	}
	return all, errors.Join(errs...)
}
