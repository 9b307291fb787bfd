//go:build !linux

package harness

import "errors"

// Other systems have no containers: Require has refused before these functions are called.
func detach(string) error { return errors.ErrUnsupported }

func removeBridge(string) error { return errors.ErrUnsupported }
