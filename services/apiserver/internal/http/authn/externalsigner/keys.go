package externalsigner

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	externaljwt "k8s.io/externaljwt/apis/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/tokenkey"
)

const (
	// retryPeriod is when keys that could not be fetched are fetched again, Kubernetes' value.
	retryPeriod = 10 * time.Second
	// fetchPeriod bounds how often tokens that name unknown keys make the signer be asked, since anybody
	// can send such tokens. It is ours.
	fetchPeriod = time.Second
	// maxSeconds bounds a number of seconds that the process names, so that it stays a Duration.
	maxSeconds = 1 << 32
)

// keySet are the keys of a signer at one time. It does not change.
type keySet struct {
	keys []key
	// refresh is when the process is to be asked again.
	refresh time.Time
	// generation counts the changes of keys.
	generation uint64
}

// key verifies signatures. A hidden one is only for tokens that were signed earlier, and is not published.
type key struct {
	tokenkey.Public
	hidden bool
	der    []byte // the public key, PKIX-serialized
}

// Run fetches the keys as often as the process asks for, until ctx ends.
func (s *Signer) Run(ctx context.Context) error {
	for wait := s.current.Load().refresh.Sub(s.now()); backoff.Sleep(ctx, wait); {
		err := s.refetch(ctx)
		if wait = s.current.Load().refresh.Sub(s.now()); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			wait = retryPeriod
			s.cfg.Logger.Error("cannot fetch the keys of service account tokens; those known remain valid",
				"endpoint", s.cfg.Endpoint, "retryAfter", wait, "err", err)
		}
	}
	return nil
}

func (s *Signer) refetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.exclusively(ctx, func() error { return s.fetch(ctx) })
}

// exclusively calls fetch while nobody else does.
func (s *Signer) exclusively(ctx context.Context, fetch func() error) error {
	select {
	case s.fetching <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.fetching }()
	return fetch()
}

// Find returns the keys with the given ID, or all if it is empty. It asks the process for a key that is not
// known, at most once a second.
func (s *Signer) Find(ctx context.Context, id string) ([]tokenkey.Public, error) {
	if len(id) > maxKeyID {
		return nil, nil
	}
	set, err := s.knowing(ctx, id)
	if err != nil {
		return nil, err
	}
	var found []tokenkey.Public
	for _, key := range set.keys {
		if id == "" || key.ID == id {
			found = append(found, key.Public)
		}
	}
	return found, nil
}

// knowing returns the current keys, after asking the process for them if they do not have the ID.
func (s *Signer) knowing(ctx context.Context, id string) (*keySet, error) {
	if set := s.current.Load(); id == "" || set.knows(id) {
		return set, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := s.now()
	err := s.exclusively(ctx, func() error {
		// Whoever waited while another asked shares the answer, or that there was none.
		if s.current.Load().knows(id) || s.tried.After(asked) {
			return nil
		}
		if !backoff.Sleep(ctx, s.tried.Add(fetchPeriod).Sub(s.now())) {
			return ctx.Err()
		}
		return s.fetch(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("looking for a key of service account tokens: %w", err)
	}
	return s.current.Load(), nil
}

func (k *keySet) knows(id string) bool {
	return slices.ContainsFunc(k.keys, func(key key) bool { return key.ID == id })
}

// fetch replaces the keys by those that the process has now. Only one caller may be in it.
func (s *Signer) fetch(ctx context.Context, options ...grpc.CallOption) error {
	s.tried = s.now()
	answer, err := s.client.FetchKeys(ctx, &externaljwt.FetchKeysRequest{}, options...)
	var keys []key
	if err == nil {
		keys, err = parse(answer)
	}
	s.metrics.fetched(err, answer.GetDataTimestamp().AsTime())
	if err != nil {
		return fmt.Errorf("fetching the keys of service account tokens from %s: %w", s.cfg.Endpoint, err)
	}
	old := s.current.Load()
	set := &keySet{keys: keys, refresh: s.now().Add(seconded(answer.GetRefreshHintSeconds())), generation: old.generation}
	if !slices.EqualFunc(old.keys, keys, equal) {
		set.generation++
		s.cfg.Logger.Info("fetched changed keys of service account tokens", "endpoint", s.cfg.Endpoint, "keys", len(keys))
	}
	s.current.Store(set)
	return nil
}

// equal reports whether two keys are the same.
func equal(a, b key) bool {
	return a.ID == b.ID && a.hidden == b.hidden && bytes.Equal(a.der, b.der)
}

// parse returns the keys of an answer.
func parse(answer *externaljwt.FetchKeysResponse) ([]key, error) {
	if hint := answer.GetRefreshHintSeconds(); hint <= 0 {
		return nil, fmt.Errorf("the keys are to be fetched again after %d s, must be more than 0", hint)
	}
	if err := answer.GetDataTimestamp().CheckValid(); err != nil {
		return nil, fmt.Errorf("reading the keys' age: %w", err)
	}
	if len(answer.GetKeys()) == 0 {
		return nil, errors.New("there are no keys")
	}
	seen := map[string]bool{}
	keys := make([]key, 0, len(answer.GetKeys()))
	for i, sent := range answer.GetKeys() {
		id := sent.GetKeyId()
		switch {
		case seen[id]:
			return nil, fmt.Errorf("two keys have the ID %.100q", id)
		case id == "" || len(id) > maxKeyID:
			return nil, fmt.Errorf("the ID of key %d has %d bytes, must have 1 to %d", i, len(id), maxKeyID)
		}
		parsed, err := x509.ParsePKIXPublicKey(sent.GetKey())
		if err != nil {
			return nil, fmt.Errorf("reading key %.100q: %w", id, err)
		}
		public, err := tokenkey.NewPublic(parsed)
		if err != nil {
			return nil, fmt.Errorf("reading key %.100q: %w", id, err)
		}
		public.ID = id
		keys = append(keys, key{Public: public, hidden: sent.GetExcludeFromOidcDiscovery(), der: sent.GetKey()})
		seen[id] = true
	}
	return keys, nil
}

// seconded returns a number of seconds as a duration, at most maxSeconds.
func seconded(seconds int64) time.Duration {
	return time.Duration(min(seconds, maxSeconds)) * time.Second
}

// Published returns the keys with which other programs verify tokens, and how long it takes until they are
// fetched again.
func (s *Signer) Published() ([]tokenkey.Public, time.Duration) {
	set := s.current.Load()
	var published []tokenkey.Public
	for _, key := range set.keys {
		if !key.hidden {
			published = append(published, key.Public)
		}
	}
	return published, max(set.refresh.Sub(s.now()), 0)
}

// Generation returns how often the keys changed.
func (s *Signer) Generation() uint64 { return s.current.Load().generation }
