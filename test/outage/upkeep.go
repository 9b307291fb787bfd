package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// etcdQuota is small enough to fill, and large enough for the load: the 15 minutes of revisions
	// that may accumulate while apiservers are killed take about 200 MB.
	etcdQuota = 512 << 20
	// ballast is the size of the objects that fill it.
	ballast = 900 << 10
)

// services are the services with Garboard's own images, in the order in which they are replaced.
var services = []string{"apiserver", "controllers", "scheduler", "nodeagent"}

// replaceImages replaces the image of each service, one after the other.
func replaceImages(ctx context.Context, s *stage) error {
	const next = "outage-next"
	for _, image := range append([]string{"cli"}, services...) {
		if err := s.project.Tag(ctx, "garboard/"+image+":"+s.version, "garboard/"+image+":"+next); err != nil {
			return err
		}
	}
	for _, service := range services {
		if err := s.project.Replace(ctx, service, map[string]string{"GARBOARD_VERSION": next}); err != nil {
			return err
		}
	}
	return nil
}

// fillQuota fills etcd until it refuses writes, and then follows docs/operate/etcd-quota.md.
func fillQuota(ctx context.Context, s *stage) error {
	maps := s.clients.CoreV1().ConfigMaps("outage-0")
	data := map[string]string{"ballast": strings.Repeat("x", ballast)}
	var full error
	for i := 0; full == nil; i++ {
		if i > 2*etcdQuota/ballast {
			return errors.New("etcd exceeds its quota")
		}
		about := metav1.ObjectMeta{Name: fmt.Sprint("ballast-", i), Labels: map[string]string{"ballast": "yes"}}
		_, full = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: about, Data: data}, metav1.CreateOptions{})
	}
	if apierrors.ReasonForError(full) == metav1.StatusReasonUnknown || !strings.Contains(full.Error(), "space") {
		return fmt.Errorf("a full etcd is reported as %w", full)
	}
	fmt.Printf("          writers get: %v\n", full)
	if _, err := maps.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("reading from a full etcd: %w", err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "ballast"}); err != nil {
		return fmt.Errorf("deleting from a full etcd: %w", err)
	}
	list, err := maps.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	for _, command := range [][]string{{"compact", list.ResourceVersion}, {"--command-timeout=60s", "defrag"}, {"alarm", "disarm"}} {
		if _, err := s.etcdctl(ctx, "etcd", command...); err != nil {
			return err
		}
	}
	return nil
}

// snapshot saves a snapshot of etcd to a file, as an operator does.
func (s *stage) snapshot(ctx context.Context, file string) error {
	raw, err := s.project.Kubeconfig(ctx)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
		return err
	}
	said, err := exec.CommandContext(ctx, s.binary, "snapshot", "save", file, "--kubeconfig", kubeconfig).CombinedOutput()
	if err != nil {
		return fmt.Errorf("saving a snapshot: %w: %s", err, said)
	}
	return nil
}

func (s *stage) etcdctl(ctx context.Context, service string, args ...string) (string, error) {
	return s.project.Exec(ctx, service, 1, append([]string{"etcdctl", "--endpoints=https://127.0.0.1:2379",
		"--cacert=/pki/etcd-ca.crt", "--cert=/pki/client.crt", "--key=/pki/client.key"}, args...)...)
}

// restore restores etcd from a snapshot as described in docs/operate/restore.md. Writes after the
// snapshot are lost by design, so the load is checked before, and restarted afterwards.
func restore(ctx context.Context, s *stage) error {
	if err := s.stopLoad(); err != nil {
		return err
	}
	if err := until(ctx, settling, s.load.Check); err != nil {
		return fmt.Errorf("before the snapshot: %w", err)
	}
	s.early = append(s.early, s.load)
	maps := s.clients.CoreV1().ConfigMaps("outage-0")
	mark := func(name string) error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	if err := mark("before"); err != nil {
		return err
	}
	snapshot := filepath.Join(s.dir, "snapshot.db")
	if err := s.snapshot(ctx, snapshot); err != nil {
		return err
	}
	if err := mark("after"); err != nil {
		return err
	}
	if err := s.project.Stop(ctx, "apiserver", "etcd"); err != nil {
		return err
	}
	if err := s.project.RestoreEtcd(ctx, snapshot); err != nil {
		return err
	}
	if err := s.project.Up(ctx); err != nil {
		return err
	}
	if err := until(ctx, recovery, func(ctx context.Context) error {
		if _, err := maps.Get(ctx, "before", metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading an object of the snapshot: %w", err)
		}
		if _, err := maps.Get(ctx, "after", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("an object written after the snapshot still exists: %w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	name := fmt.Sprint("outage-restored-", time.Now().Unix())
	if err := s.namespace(ctx, name); err != nil {
		return err
	}
	s.begin(ctx, name)
	return nil
}
