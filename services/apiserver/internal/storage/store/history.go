package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// historyKey is outside every prefix: all planes on one etcd share its revisions.
const historyKey = "/garboard/history"

// History reads the identity of etcd's history, and creates one if there is none.
func (s *Store) History(ctx context.Context) (fabric.History, error) {
	fresh := fabric.History{Created: time.Now().UnixNano(), Nonce: rand.Uint64()}
	return s.writeHistory(ctx, 0, fresh)
}

// RenewHistory begins a new history in place of old, after etcd was set back without raising its
// revisions. If another process was faster, RenewHistory returns that process's history.
func (s *Store) RenewHistory(ctx context.Context, old fabric.History) (fabric.History, error) {
	resp, err := s.client.Get(ctx, historyKey)
	if err != nil {
		return fabric.History{}, fmt.Errorf("reading etcd's history: %w", etcd.APIError(err))
	}
	var based int64
	if len(resp.Kvs) > 0 {
		found, err := decodeHistory(resp.Kvs[0].Value)
		if err != nil {
			return fabric.History{}, err
		}
		if old.Before(found) {
			s.sightings.enter(found)
			return found, nil
		}
		based = resp.Kvs[0].ModRevision
	}
	return s.writeHistory(ctx, based, fabric.History{
		Created: max(time.Now().UnixNano(), old.Created+1), Nonce: rand.Uint64(),
	})
}

// writeHistory stores a history if the key is still at revision based, and returns the resulting
// value.
func (s *Store) writeHistory(ctx context.Context, based int64, next fabric.History) (fabric.History, error) {
	data, err := json.Marshal(next)
	if err != nil {
		return fabric.History{}, fmt.Errorf("encoding etcd's history: %w", err)
	}
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(historyKey), "=", based)).
		Then(clientv3.OpPut(historyKey, string(data))).
		Else(clientv3.OpGet(historyKey)).Commit()
	if err != nil {
		return fabric.History{}, fmt.Errorf("writing etcd's history: %w", etcd.APIError(err))
	}
	if !resp.Succeeded {
		kv := found(resp)
		if kv == nil {
			return fabric.History{}, fmt.Errorf("writing etcd's history: key %s was removed meanwhile", historyKey)
		}
		if next, err = decodeHistory(kv.Value); err != nil {
			return fabric.History{}, err
		}
	}
	s.sightings.enter(next)
	return next, nil
}

func decodeHistory(data []byte) (fabric.History, error) {
	var found fabric.History
	if err := json.Unmarshal(data, &found); err != nil {
		return fabric.History{}, corrupt(historyKey, err)
	}
	return found, nil
}
