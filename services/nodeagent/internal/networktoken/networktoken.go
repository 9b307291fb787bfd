// Package networktoken obtains the token as which the network parts of a node agent read the plane, and
// renews it. The token is one of the service account kube-system/node-network and is bound to the node's
// Node: it ends with it.
package networktoken

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/pki"
)

const (
	// lifetime is the asked lifetime of a token; a token is renewed after 80 % of the lifetime that it got.
	lifetime = time.Hour
	// checkPeriod is the interval at which the token's age and Node are looked at.
	checkPeriod = 10 * time.Second
	// After a failure the next attempt is made in retryFirst, then in twice that, at most retryLongest.
	retryFirst   = 500 * time.Millisecond
	retryLongest = 15 * time.Second
)

// Config configures a Source.
type Config struct {
	NodeName string
	// Client acts as the node.
	Client client.Interface
	// Node returns the UID of the node's Node; empty until it is registered.
	Node func() types.UID
	// Path is the file that holds the token.
	Path   string
	Logger *slog.Logger
}

// Source obtains and renews the token.
type Source struct {
	cfg      Config
	accounts client.Resource[*corev1.ServiceAccount]

	// Of the token that the file has. Only one of Obtain and Run runs at a time.
	renewal, expires time.Time
	node             types.UID
}

// New returns a Source. It does no I/O.
func New(cfg Config) *Source {
	return &Source{cfg: cfg, accounts: client.Of[*corev1.ServiceAccount](cfg.Client)}
}

// Obtain writes the first token to the file, and retries until it succeeds. It returns ctx's error if ctx
// ends first.
func (s *Source) Obtain(ctx context.Context) error {
	delays := backoff.Doubling(retryFirst, retryLongest, 0)
	for {
		err := s.renew(ctx)
		if err == nil {
			return nil
		}
		wait := delays.Step()
		if ctx.Err() == nil && wait >= retryLongest {
			s.cfg.Logger.Warn("the network parts of the node wait for their token", "err", err, "again", wait)
		}
		if !backoff.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// Run renews the token until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	delays, wait := backoff.Doubling(checkPeriod, 6*checkPeriod, 0), checkPeriod
	for backoff.Sleep(ctx, wait) {
		wait = checkPeriod
		if !s.due(time.Now()) {
			continue
		}
		if err := s.renew(ctx); err == nil {
			delays = backoff.Doubling(checkPeriod, 6*checkPeriod, 0)
		} else if ctx.Err() == nil {
			wait = delays.Step()
			s.cfg.Logger.Warn("the token of the node's network parts could not be renewed", "err", err, "expires", s.expires, "again", wait)
		}
	}
	return nil
}

// due reports whether the token is to be renewed: it is old, or was for a Node that is no more.
func (s *Source) due(now time.Time) bool {
	node := s.cfg.Node()
	return !now.Before(s.renewal) || node != "" && node != s.node
}

// renew obtains a token and writes it to the file.
func (s *Source) renew(ctx context.Context) error {
	node := s.cfg.Node()
	if node == "" {
		return errors.New("the node is not registered yet")
	}
	// Without the monotonic clock, which stands still while the machine sleeps.
	seconds, now := int64(lifetime.Seconds()), time.Now().Round(0)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: s.cfg.NodeName, UID: node},
	}}
	answer := &authenticationv1.TokenRequest{}
	if err := s.accounts.CreateSubresource(ctx, nodeapi.NetworkAccountNamespace, nodeapi.NetworkAccount, "token", request, answer,
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("asking for the token of the node's network parts: %w", err)
	}
	if answer.Status.Token == "" {
		return errors.New("the answer has no token of the node's network parts")
	}
	if err := (pki.Files{}).Write(s.cfg.Path, []byte(answer.Status.Token), pki.Secret); err != nil {
		return fmt.Errorf("writing the token of the node's network parts: %w", err)
	}
	s.expires, s.node = answer.Status.ExpirationTimestamp.Time, node
	granted := s.expires.Sub(now)
	if given := answer.Spec.ExpirationSeconds; given != nil && *given > 0 { // It does not depend on the clocks.
		granted = min(time.Duration(*given)*time.Second, lifetime)
	}
	s.renewal = now.Add(granted * 8 / 10)
	return nil
}
