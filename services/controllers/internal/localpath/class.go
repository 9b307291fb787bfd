package localpath

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/localvolume"
)

// DefaultClass is the name of the StorageClass that the controller creates by default.
const DefaultClass = "local-path"

const (
	isDefault     = "storageclass.kubernetes.io/is-default-class"
	isDefaultBeta = "storageclass.beta.kubernetes.io/is-default-class"

	// firstRetry and lastRetry are the first and the longest pause between attempts to create the class.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// provideClass creates the StorageClass with the given name if there is none, and tries until it has. A
// class that exists is never changed. The new class is the default one unless there is another.
func provideClass(ctx context.Context, classes client.Resource[class], name string, logger *slog.Logger) error {
	delays := backoff.Doubling(firstRetry, lastRetry, 0)
	for {
		err := createClass(ctx, classes, name)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		wait := delays.Step()
		logger.Warn("creating the storage class of local volumes failed", "name", name, "err", err, "again", wait)
		if !backoff.Sleep(ctx, wait) {
			return nil
		}
	}
}

func createClass(ctx context.Context, classes client.Resource[class], name string) error {
	all, _, err := classes.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the storage classes: %w", err)
	}
	if slices.ContainsFunc(all, func(c class) bool { return c.Name == name }) {
		return nil
	}
	other := slices.ContainsFunc(all, func(c class) bool {
		return c.Annotations[isDefault] == "true" || c.Annotations[isDefaultBeta] == "true"
	})
	mode, policy, expands := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete, false
	_, err = classes.Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Annotations: map[string]string{isDefault: strconv.FormatBool(!other)}},
		Provisioner: localvolume.Provisioner, VolumeBindingMode: &mode, ReclaimPolicy: &policy, AllowVolumeExpansion: &expands,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the storage class %s: %w", name, err)
	}
	return nil
}
