// Package snapshotfile keeps snapshots of etcd in files and looks into them.
package snapshotfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/cmd/garboard/internal/plane"
	"github.com/garboard/garboard/libs/snapshot"
)

// Saved is what Save has kept.
type Saved struct {
	Info
	// Etcd is the name of the cluster, Others those of the other ones, which are not in the file.
	Etcd   string
	Others []string
	// Took is how long it took.
	Took time.Duration
}

// Options say what is saved.
type Options struct {
	// Etcd names the cluster; that of most resources if empty.
	Etcd string
	// Progress is told how many bytes have come, of about how many (0 if that is not known);
	// nil for nobody.
	Progress func(bytes, about int64)
}

// Save gets a snapshot from an apiserver and keeps it in a file, which only its owner can read.
// Until all of it has come and was found to be whole, the file at path stays what it was.
func Save(ctx context.Context, config *rest.Config, path string, opts Options) (saved Saved, err error) {
	began := time.Now()
	query := url.Values{}
	if opts.Etcd != "" {
		query.Set(snapshot.Query, opts.Etcd)
	}
	response, err := plane.Get(ctx, config, snapshot.Path, query)
	if err != nil {
		return Saved{}, err
	}
	defer func() { _ = response.Body.Close() }()
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-*")
	if err != nil {
		return Saved{}, fmt.Errorf("making a file beside %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	to := &told{Writer: file, about: number(response, snapshot.HeaderSize), tell: opts.Progress}
	if _, err := io.Copy(to, response.Body); err != nil {
		return Saved{}, fmt.Errorf("the snapshot was cut off after %d bytes: %w", to.bytes, err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return Saved{}, fmt.Errorf("writing %s: %w", file.Name(), err)
	}
	// What is verified is what was written, not what came.
	info, err := Look(file.Name())
	if err != nil {
		return Saved{}, err
	}
	if least := number(response, snapshot.HeaderRevision); info.Revision < least {
		return Saved{}, fmt.Errorf("the snapshot is older than what the apiserver promised: it ends at revision %d, before %d", info.Revision, least)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return Saved{}, fmt.Errorf("giving the snapshot its name: %w", err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return Saved{}, err
	}
	info.File = path
	saved = Saved{Info: info, Etcd: response.Header.Get(snapshot.HeaderEtcd), Took: time.Since(began)}
	for name := range strings.SplitSeq(response.Header.Get(snapshot.HeaderClusters), ",") {
		if name != saved.Etcd && name != "" {
			saved.Others = append(saved.Others, name)
		}
	}
	return saved, nil
}

// syncFolder makes the name of a file in it last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("making the file's name last: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("making the file's name last: %w", err)
	}
	return nil
}

func number(response *http.Response, header string) int64 {
	n, err := strconv.ParseInt(response.Header.Get(header), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// told is a writer that tells of its progress.
type told struct {
	io.Writer
	bytes, about int64
	tell         func(bytes, about int64)
}

func (t *told) Write(part []byte) (int, error) {
	n, err := t.Writer.Write(part)
	t.bytes += int64(n)
	if t.tell != nil {
		t.tell(t.bytes, t.about)
	}
	return n, err
}
