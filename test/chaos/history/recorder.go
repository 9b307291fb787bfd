package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/scheme"
)

// Root is the key prefix of all objects.
const Root = "/registry/"

// Intervals of the recorder.
const (
	progressPause = 50 * time.Millisecond
	progressWait  = 2 * time.Second
	retryPause    = 200 * time.Millisecond
)

// Recorder records one life of etcd.
type Recorder struct {
	client  *clientv3.Client
	checker *Checker
	table   *scheme.Table
	kinds   map[string]*scheme.Kind // by key prefix
}

// NewRecorder creates a recorder of some resources of the core group.
func NewRecorder(client *clientv3.Client, table *scheme.Table, checker *Checker, kinds []*scheme.Kind) *Recorder {
	r := &Recorder{client: client, checker: checker, table: table, kinds: map[string]*scheme.Kind{}}
	for _, kind := range kinds {
		r.kinds[Root+kind.StoragePrefix+"/"] = kind
	}
	return r
}

// Run records everything that etcd still knows and everything that happens, until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	next := int64(1)
	for {
		err := r.watch(ctx, &next)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !transient(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPause):
		}
	}
}

// errSilent reports that etcd sent nothing for a while.
var errSilent = errors.New("etcd is silent")

func transient(err error) bool {
	var faulty *undecodable
	return !errors.As(err, &faulty)
}

type undecodable struct{ error }

func (r *Recorder) watch(ctx context.Context, next *int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// etcd sends no progress to a watch that waits for a future revision.
	responses := r.client.Watch(clientv3.WithRequireLeader(ctx), Root, clientv3.WithPrefix(), clientv3.WithRev(max(*next-1, 1)),
		clientv3.WithFragment(), clientv3.WithCreatedNotify())
	asked, since := 0, time.Now()
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if asked > 0 {
				if time.Since(since) > progressWait {
					return errSilent
				}
				continue
			}
			asked, since = r.checker.Asking(), time.Now()
			if err := r.client.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
				return err
			}
		case resp, ok := <-responses:
			switch {
			case !ok:
				return errSilent
			case errors.Is(resp.Err(), rpctypes.ErrCompacted):
				return r.list(ctx, resp.CompactRevision, next)
			case resp.Err() != nil:
				return resp.Err()
			case resp.IsProgressNotify():
				r.checker.Record(nil, resp.Header.Revision, asked)
				*next, asked = max(*next, resp.Header.Revision+1), 0
			case len(resp.Events) > 0:
				if err := r.events(resp.Events, next); err != nil {
					return err
				}
			}
		}
	}
}

// list starts the record with the content at the oldest revision that etcd still knows.
func (r *Recorder) list(ctx context.Context, revision int64, next *int64) error {
	if *next > 1 {
		return &undecodable{fmt.Errorf("recording etcd: it was compacted at %d before %d was read", revision, *next)}
	}
	resp, err := r.client.Get(ctx, Root, clientv3.WithPrefix(), clientv3.WithRev(revision),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return err
	}
	var changes []Change
	for _, kv := range resp.Kvs {
		change, ok, err := r.change(kv, false)
		if err != nil {
			return err
		}
		if ok {
			changes = append(changes, change)
		}
	}
	r.checker.Record(changes, revision, 0)
	*next = revision + 1
	return nil
}

func (r *Recorder) events(events []*clientv3.Event, next *int64) error {
	var changes []Change
	for _, event := range events {
		if event.Kv.ModRevision < *next {
			continue // already recorded
		}
		change, ok, err := r.change(event.Kv, event.Type == clientv3.EventTypeDelete)
		if err != nil {
			return err
		}
		if ok {
			changes = append(changes, change)
		}
	}
	// The client reassembles fragments, so revisions are complete.
	last := events[len(events)-1].Kv.ModRevision
	r.checker.Record(changes, last, 0)
	*next = max(*next, last+1)
	return nil
}

func (r *Recorder) change(kv *mvccpb.KeyValue, deleted bool) (Change, bool, error) {
	key := string(kv.Key)
	for prefix, kind := range r.kinds {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		c := Change{Revision: kv.ModRevision, Resource: kind.Resource, Key: rest, Deleted: deleted}
		if deleted {
			return c, true, nil
		}
		obj, err := r.table.DecodeStorage(kind, kv.Value)
		if err != nil {
			return c, false, &undecodable{fmt.Errorf("recording %s: %w", key, err)}
		}
		c.UID, c.Scope = string(obj.GetUID()), kind.ScopeOf(obj)
		return c, true, nil
	}
	return Change{}, false, nil
}
