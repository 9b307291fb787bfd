// Package snapshotfile saves snapshots of etcd to files and inspects them.
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

// Saved describes a saved snapshot.
type Saved struct {
	Info
	// Etcd is the name of the cluster; Others are the names of the other clusters, which are not in
	// the file.
	Etcd   string
	Others []string
	// Took is the duration of the save.
	Took time.Duration
}

// Options configure Save.
type Options struct {
	// Etcd names the cluster; if empty, that of most resources.
	Etcd string
	// Progress is called with the number of bytes received and the approximate total (0 if not
	// known); may be nil.
	Progress func(bytes, about int64)
}

// Save requests a snapshot from an apiserver and saves it to a file that only its owner can read.
// The file at path stays unchanged until the whole snapshot has arrived and is verified.
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
		return Saved{}, fmt.Errorf("creating a file next to %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	to := &progressWriter{Writer: file, about: number(response, snapshot.HeaderSize), report: opts.Progress}
	if _, err := io.Copy(to, response.Body); err != nil {
		return Saved{}, fmt.Errorf("the snapshot was cut off after %d bytes: %w", to.bytes, err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return Saved{}, fmt.Errorf("writing %s: %w", file.Name(), err)
	}
	// Verify the written file rather than the received bytes.
	info, err := Look(file.Name())
	if err != nil {
		return Saved{}, err
	}
	if least := number(response, snapshot.HeaderRevision); info.Revision < least {
		return Saved{}, fmt.Errorf("the snapshot is older than what the apiserver promised: it ends at revision %d, before %d", info.Revision, least)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return Saved{}, fmt.Errorf("renaming the snapshot: %w", err)
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

// syncFolder makes the name of a file in the directory durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing the directory: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("syncing the directory: %w", err)
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

// progressWriter is a writer that reports its progress.
type progressWriter struct {
	io.Writer
	bytes, about int64
	report       func(bytes, about int64)
}

func (t *progressWriter) Write(part []byte) (int, error) {
	n, err := t.Writer.Write(part)
	t.bytes += int64(n)
	if t.report != nil {
		t.report(t.bytes, t.about)
	}
	return n, err
}
