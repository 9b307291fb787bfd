//go:build !linux

package podnetwork

import (
	"context"
	"errors"
	"net/netip"
)

var errUnsupported = errors.New("the pod network needs Linux")

func addressesByIndex() (map[int][]netip.Prefix, error) { return nil, errUnsupported }

type other struct{}

func newKernel() kernel { return other{} }

func (other) prepare(context.Context) error { return nil }

func (other) host(netip.Addr, string) (Host, error) { return Host{}, errUnsupported }

func (other) apply(context.Context, *Plan, Host, string) (bool, error) { return false, errUnsupported }

func (other) remove(context.Context, string) error { return nil }
