package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// Silence is how long a followed etcd may send nothing, although asked for its progress, before
// Follow gives up.
const Silence = 10 * time.Second

// ErrSilent reports that etcd did not answer for Silence.
var ErrSilent = errors.New("etcd is silent")

// ErrReopened reports that the connection behind a follower broke. The server that answers now may
// be an etcd that was set back meanwhile: check a witness before following again.
var ErrReopened = errors.New("the connection to etcd was opened anew")

// Record is the state of one key at one revision, or its deletion.
type Record struct {
	// Namespace and Name are the object's; Namespace is empty for cluster-wide kinds.
	Namespace, Name string
	// Revision is the revision of the change.
	Revision int64
	// Deleted reports whether the key was removed at Revision.
	Deleted bool
	// Raw is the stored value; nil if Deleted.
	Raw []byte
	// Digest is the digest of the stored value if Raw holds another form of it; else nil.
	Digest []byte
}

// Digest returns a digest that identifies a stored value where the value itself is not at hand.
func Digest(value []byte) []byte {
	sum := sha256.Sum256(value)
	return sum[:]
}

// Update states what happened up to a revision: Records, and nothing else.
type Update struct {
	// Revision is the revision up to which the follower now knows everything.
	Revision int64
	// Records are the changes in the order of their revisions. Each revision is complete or absent.
	Records []Record
}

// Object decodes a record's value as stored and sets its resourceVersion. See Completed.
func (s *Store) Object(kind *scheme.Kind, record Record) (scheme.Object, error) {
	obj, err := s.table.DecodeStorage(kind, record.Raw)
	if err != nil {
		return nil, &CorruptError{Key: s.prefix + kind.Key(record.Namespace, record.Name), Err: err}
	}
	obj.SetResourceVersion(strconv.FormatInt(record.Revision, 10))
	return obj, nil
}

// Completed applies the defaults to the object of a record, as the store's reads do. Its error is an
// *IncompleteError. It returns the
// value that holds the result: the record's own if nothing was missing.
func (s *Store) Completed(kind *scheme.Kind, record Record, obj scheme.Object) ([]byte, error) {
	fill := s.defaults(kind)
	if fill == nil {
		return record.Raw, nil
	}
	value, err := s.table.Complete(kind, record.Raw, obj, fill)
	if err != nil {
		return nil, &IncompleteError{Key: s.prefix + kind.Key(record.Namespace, record.Name), Err: err}
	}
	return value, nil
}

// Scan passes every object of kind as it was at revision to take, page by page. It returns a
// *CompactedError if etcd no longer has that revision.
func (s *Store) Scan(ctx context.Context, kind *scheme.Kind, revision int64, take func([]Record)) error {
	s = s.Of(kind)
	prefix, err := s.rangePrefix(kind, "")
	if err != nil {
		return err
	}
	start := prefix
	for {
		resp, _, err := s.readRange(ctx, kind, start, prefix, revision, pageKeys)
		if err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) {
				return &CompactedError{}
			}
			return fmt.Errorf("scanning %s at revision %d: %w", prefix, revision, etcd.APIError(err))
		}
		records := make([]Record, 0, len(resp.Kvs))
		for _, kv := range resp.Kvs {
			start = string(kv.Key) + "\x00"
			if namespace, name, ok := s.split(kind, string(kv.Key)); ok {
				records = append(records, Record{Namespace: namespace, Name: name, Revision: kv.ModRevision, Raw: kv.Value})
			}
		}
		take(records)
		if !resp.More || len(resp.Kvs) == 0 {
			return nil
		}
	}
}

// Oldest returns the oldest revision, at least atLeast, at which etcd can still be read and from
// which it can be followed.
func (s *Store) Oldest(ctx context.Context, atLeast int64) (int64, error) {
	atLeast = max(atLeast, 1)
	_, err := s.client.Get(ctx, s.prefix, clientv3.WithCountOnly(), clientv3.WithRev(atLeast))
	if err == nil {
		return atLeast, nil
	}
	if !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, fmt.Errorf("looking for etcd's oldest revision: %w", etcd.APIError(err))
	}
	// etcd reports the compacted revision only to a watch.
	watchCtx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.streamContext(ctx)))
	defer cancel()
	for resp := range s.client.Watch(watchCtx, s.prefix, clientv3.WithRev(1)) {
		if resp.CompactRevision != 0 {
			return max(resp.CompactRevision, atLeast), nil
		}
		if err := resp.Err(); err != nil {
			return 0, fmt.Errorf("looking for etcd's oldest revision: %w", etcd.APIError(err))
		}
	}
	return 0, fmt.Errorf("looking for etcd's oldest revision: %w", context.Cause(watchCtx))
}

// Follow passes what happens to the objects of kind after a revision to take, one update at a time,
// until ctx ends or take fails. Each update covers whole revisions; one without records states that
// nothing happened. A value on progress requests such an update at once.
//
// It returns a *CompactedError if etcd no longer has the changes, ErrSilent if etcd sends nothing
// although asked, ErrReopened after the connection broke, and ctx's error when ctx ends.
func (s *Store) Follow(ctx context.Context, kind *scheme.Kind, after int64, progress <-chan struct{}, take func(Update) error) error {
	s = s.Of(kind)
	prefix, err := s.rangePrefix(kind, "")
	if err != nil {
		return err
	}
	stream := &stream{reopened: make(chan struct{}, 1)}
	watchCtx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.streamContext(context.WithValue(ctx, streamKey{}, stream))))
	defer cancel()
	updates := s.client.Watch(watchCtx, prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1),
		clientv3.WithProgressNotify(), clientv3.WithFragment())
	silence := time.NewTimer(Silence)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return ErrSilent
		case <-stream.reopened:
			return ErrReopened
		case <-progress:
			if err := s.requestProgress(watchCtx); err != nil {
				return err
			}
		case resp, ok := <-updates:
			if !ok {
				return fmt.Errorf("following %s: etcd ended the watch: %w", prefix, context.Cause(watchCtx))
			}
			if resp.CompactRevision != 0 {
				return &CompactedError{Oldest: resp.CompactRevision}
			}
			if err := resp.Err(); err != nil {
				return fmt.Errorf("following %s: %w", prefix, err)
			}
			// The client continues by itself after a break; what it then delivers must not be
			// trusted before the check.
			select {
			case <-stream.reopened:
				return ErrReopened
			default:
			}
			silence.Reset(Silence)
			if resp.Created {
				continue
			}
			if err := take(s.update(kind, resp)); err != nil {
				return err
			}
		}
	}
}

// requestProgress has a deadline, since etcd's client blocks while it looks for a server.
func (s *Store) requestProgress(watchCtx context.Context) error {
	ctx, cancel := context.WithTimeout(watchCtx, Silence)
	defer cancel()
	if err := s.client.RequestProgress(ctx); err != nil {
		return fmt.Errorf("asking etcd for its progress: %w", err)
	}
	return nil
}

func (s *Store) update(kind *scheme.Kind, resp clientv3.WatchResponse) Update {
	if len(resp.Events) == 0 {
		return Update{Revision: resp.Header.Revision}
	}
	update := Update{Records: make([]Record, 0, len(resp.Events))}
	for _, event := range resp.Events {
		// Not the header's revision: it may be ahead of the events sent so far.
		update.Revision = event.Kv.ModRevision
		namespace, name, ok := s.split(kind, string(event.Kv.Key))
		if !ok {
			continue
		}
		record := Record{Namespace: namespace, Name: name, Revision: event.Kv.ModRevision}
		if event.Type == clientv3.EventTypeDelete {
			record.Deleted = true
		} else {
			record.Raw = event.Kv.Value
		}
		update.Records = append(update.Records, record)
	}
	return update
}

// Holds reports whether etcd has this record at its revision: the proof that it is still the etcd
// that sent the record. A compacted revision proves nothing and contradicts nothing. If Raw is nil
// it is not compared; Digest, if set, is compared instead.
func (s *Store) Holds(ctx context.Context, kind *scheme.Kind, record Record) (bool, error) {
	s = s.Of(kind)
	key := s.prefix + kind.Key(record.Namespace, record.Name)
	resp, err := s.client.Get(ctx, key, clientv3.WithRev(record.Revision))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return true, nil
	case errors.Is(err, rpctypes.ErrFutureRev):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for %s at revision %d: %w", key, record.Revision, etcd.APIError(err))
	case record.Deleted:
		return len(resp.Kvs) == 0, nil
	}
	if len(resp.Kvs) != 1 || resp.Kvs[0].ModRevision != record.Revision {
		return false, nil
	}
	value := resp.Kvs[0].Value
	if record.Digest != nil {
		return bytes.Equal(Digest(value), record.Digest), nil
	}
	return record.Raw == nil || bytes.Equal(value, record.Raw), nil
}

// streamKey is the context key of a *stream.
type streamKey struct{}

// stream notifies a follower when the gRPC stream below its watch is opened again.
type stream struct {
	opened   atomic.Bool
	reopened chan struct{}
}

// noteStreams is a gRPC interceptor that notices when the streams of followers are opened.
func noteStreams(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok && s.opened.Swap(true) {
		select {
		case s.reopened <- struct{}{}:
		default:
		}
	}
	return open(ctx, desc, cc, method, opts...)
}

// streamContext gives each follower its own gRPC stream: etcd answers a progress request only when
// every watcher on the stream has caught up.
func (s *Store) streamContext(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "garboard-stream", strconv.FormatInt(s.streams.Add(1), 10))
}
