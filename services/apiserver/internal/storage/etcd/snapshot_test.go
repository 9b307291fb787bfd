package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestSnapshotIsWhole(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	s := connect(t, server.Endpoints()...)
	last := server.Put(t, map[string]string{"/registry/a": strings.Repeat("needle ", 50_000)})
	content, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if _, err := io.Copy(&whole, content); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(content.Close(), content.Close()); err != nil {
		t.Errorf("closing, twice: %v", err)
	}
	if _, err := snapshot.Verify(bytes.NewReader(whole.Bytes())); err != nil {
		t.Error(err)
	}
	if content.Revision != last || content.Size == 0 || !strings.HasPrefix(content.Version, "3.") {
		t.Errorf("the snapshot says revision %d, size %d, version %q", content.Revision, content.Size, content.Version)
	}
	if !bytes.Contains(whole.Bytes(), []byte("needle needle")) {
		t.Error("the snapshot lacks a written value")
	}
}

// TestSnapshotPassesOverTheDead checks that any live member will do.
func TestSnapshotPassesOverTheDead(t *testing.T) {
	t.Parallel()
	dead := etcdtest.Start(t)
	endpoints := append(dead.Endpoints(), etcdtest.New(t)...)
	s := connect(t, endpoints...)
	dead.Stop(t)
	content, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Verify(content); err != nil {
		t.Error(err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
}

// TestSnapshotCutOff checks that a read that is ended early does not look complete.
func TestSnapshotCutOff(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	s := connect(t, server.Endpoints()...)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		server.Put(t, map[string]string{"/registry/" + name: strings.Repeat(name, 1<<20)})
	}
	for what, end := range map[string]func(cancel func(), content io.Closer){
		"cancelled": func(cancel func(), _ io.Closer) { cancel() },
		"closed":    func(_ func(), content io.Closer) { _ = content.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		content, err := s.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, content, 100_000); err != nil {
			t.Fatal(err)
		}
		end(cancel, content)
		if n, err := io.Copy(io.Discard, content); err == nil {
			t.Errorf("%s: the read ended without an error after %d more bytes", what, n)
		}
		if err := content.Close(); err != nil {
			t.Errorf("%s: closing: %v", what, err)
		}
		cancel()
	}
}

func TestSnapshotWithoutEtcd(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	s := connect(t, server.Endpoints()...)
	server.Stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Snapshot(ctx); err == nil || !strings.Contains(err.Error(), server.Endpoints()[0]) {
		t.Errorf("the error is %v", err)
	}
}
