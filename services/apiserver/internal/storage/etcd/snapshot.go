package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Snapshot is a copy of everything in one etcd cluster, read while etcd produces it. It ends with
// the SHA-256 of the preceding bytes, which etcd appends. Close must be called.
type Snapshot struct {
	// Version is the version of the member that produces the copy; Size is its database size in
	// bytes beforehand.
	Version string
	Size    int64
	// Revision is a revision that the copy certainly includes.
	Revision int64

	content io.ReadCloser
	close   func() error
}

// Read reads the next part. It returns io.EOF only after etcd has sent everything.
func (s *Snapshot) Read(part []byte) (int, error) {
	n, err := s.content.Read(part)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("reading a snapshot of etcd: %w", err)
	}
	return n, err
}

// Close ends the read at any point. It may be called again, and from another goroutine.
func (s *Snapshot) Close() error { return s.close() }

// Snapshot begins a copy of the cluster. The member that produces it has everything
// that was written before the call: a member that is cut off from the others is skipped.
func (c *Connection) Snapshot(ctx context.Context) (*Snapshot, error) {
	var faults []error
	for _, endpoint := range c.Client.Endpoints() {
		found, err := c.snapshotOf(ctx, endpoint)
		if err == nil {
			return found, nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", endpoint, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("no etcd member can make a snapshot: %w", APIError(errors.Join(faults...)))
}

func (c *Connection) snapshotOf(ctx context.Context, endpoint string) (found *Snapshot, err error) {
	client, err := c.member(endpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end := func() error {
		cancel()
		if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("closing the connection to etcd: %w", err)
		}
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	asking, stop := context.WithTimeout(ctx, ReadPatience)
	defer stop()
	// A linearizable read through this one member: when it answers, it has everything that was
	// committed before.
	resp, err := client.Get(asking, c.prefix, clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("reading etcd's revision: %w", APIError(err))
	}
	status, err := client.Status(asking, endpoint)
	if err != nil {
		return nil, fmt.Errorf("asking etcd for its size: %w", APIError(err))
	}
	content, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("beginning the snapshot: %w", APIError(err))
	}
	return &Snapshot{
		Version: status.Version, Size: status.DbSize, Revision: resp.Header.Revision, content: content.Snapshot,
		close: sync.OnceValue(func() error { return errors.Join(content.Snapshot.Close(), end()) }),
	}, nil
}

// member returns a client that connects to one member only.
func (c *Connection) member(endpoint string) (*clientv3.Client, error) {
	cfg := c.dial
	cfg.Endpoints = []string{endpoint}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return client, nil
}
