//go:build !linux

package harness

import "errors"

// There are no containers on other systems: Require has refused before these are called.
func detach(string) error { return errors.ErrUnsupported }

func removeBridge(string) error { return errors.ErrUnsupported }
