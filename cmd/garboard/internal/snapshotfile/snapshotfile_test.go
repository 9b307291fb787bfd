package snapshotfile_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/cmd/garboard/internal/snapshotfile"
	"github.com/garboard/garboard/libs/snapshot"
)

// taken returns a snapshot of an etcd at revision 9.
func taken(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		meta, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		at := func(revision byte, mark string) []byte {
			return []byte("\x00\x00\x00\x00\x00\x00\x00" + string(rune(revision)) + "_\x00\x00\x00\x00\x00\x00\x00\x00" + mark)
		}
		// One key has two revisions, one was deleted.
		return errors.Join(
			keys.Put(at(6, ""), []byte("\x10\x05\x0a\x01a")),
			keys.Put(at(7, ""), []byte("\x0a\x01a")),
			keys.Put(at(8, ""), []byte("\x0a\x01b")),
			keys.Put(at(9, "t"), []byte("\x0a\x01b")),
			meta.Put([]byte("consistent_index"), []byte("12345678")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// serving returns the configuration of an apiserver that serves a snapshot.
func serving(t *testing.T, handle http.HandlerFunc) *rest.Config {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestSave(t *testing.T) {
	whole := taken(t)
	config := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != snapshot.Path || r.URL.Query().Get("etcd") != "events" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set(snapshot.HeaderEtcd, "events")
		w.Header().Set(snapshot.HeaderClusters, "main,events")
		w.Header().Set(snapshot.HeaderRevision, "9")
		w.Header().Set(snapshot.HeaderSize, "77")
		_, _ = w.Write(whole)
	})
	path := filepath.Join(t.TempDir(), "s.db")
	if err := os.WriteFile(path, []byte("the old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	var told, about int64
	saved, err := snapshotfile.Save(t.Context(), config, path, snapshotfile.Options{Etcd: "events", Progress: func(bytes, of int64) { told, about = bytes, of }})
	if err != nil {
		t.Fatal(err)
	}
	if saved.Revision != 9 || saved.TotalKeys != 1 || saved.Size != int64(len(whole)) || saved.Etcd != "events" || len(saved.Others) != 1 || saved.Others[0] != "main" || saved.File != path {
		t.Errorf("saved %+v", saved)
	}
	if told != int64(len(whole)) || about != 77 {
		t.Errorf("the progress was %d of %d", told, about)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != string(whole) {
		t.Errorf("the file holds %d bytes, %v", len(data), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	left(t, path)
}

// left checks that nothing but the file is in its directory.
func left(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("there are %v (%v)", entries, err)
	}
}

// TestWhatFailsLeavesTheOldOne: whatever fails, the file stays unchanged.
func TestWhatFailsLeavesTheOldOne(t *testing.T) {
	whole := taken(t)
	damaged := append([]byte(nil), whole...)
	damaged[5000] ^= 1
	strange := append(make([]byte, 4096), func() []byte { s := sha256.Sum256(make([]byte, 4096)); return s[:] }()...)
	for name, tc := range map[string]struct {
		handle http.HandlerFunc
		is     error
		says   string
	}{
		"cut off": {handle: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(whole[:8192])
			panic(http.ErrAbortHandler)
		}, says: "cut off after"},
		"ends early":  {handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole[:len(whole)-7]) }, is: snapshot.ErrIncomplete},
		"damaged":     {handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(damaged) }, is: snapshot.ErrDamaged},
		"no database": {handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(strange) }, says: "reading the database"},
		"too old": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(snapshot.HeaderRevision, "10")
			_, _ = w.Write(whole)
		}, says: "ends at revision 9, before 10"},
		"no right": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"you may not","reason":"Forbidden","code":403}`))
		}, says: "you may not"},
		"another program": {handle: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "sheep", http.StatusTeapot) }, says: "418 I'm a teapot: sheep"},
	} {
		path := filepath.Join(t.TempDir(), "s.db")
		if err := os.WriteFile(path, []byte("the old one"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := snapshotfile.Save(t.Context(), serving(t, tc.handle), path, snapshotfile.Options{})
		if err == nil || !strings.Contains(err.Error(), tc.says) || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "no right" && !apierrors.IsForbidden(err) {
			t.Errorf("%s is not an API error: %v", name, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "the old one" {
			t.Errorf("%s: the file holds %d bytes, %v", name, len(data), err)
		}
		left(t, path)
	}
}

func TestCancel(t *testing.T) {
	whole := taken(t)
	ctx, cancel := context.WithCancel(t.Context())
	config := serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
		_, _ = w.Write(whole[:4096])
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	path := filepath.Join(t.TempDir(), "s.db")
	if _, err := snapshotfile.Save(ctx, config, path, snapshotfile.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
		t.Errorf("there are %v (%v)", entries, err)
	}
}

func TestLookAtWhatIsNotThere(t *testing.T) {
	if _, err := snapshotfile.Look(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}
