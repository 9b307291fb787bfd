// Package legacytokencleaner removes the service account tokens that old versions of Kubernetes created by
// themselves in Secrets, once nobody has used them for a year. Such a Secret is first marked as invalid,
// which refuses its token, and deleted after as long again (kubernetes, pkg/controller/serviceaccount,
// LegacySATokenCleaner).
package legacytokencleaner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/podreferences"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "legacy-serviceaccount-token-cleaner-controller"
	// DefaultPeriod is the default of kube-controller-manager's
	// --legacy-service-account-token-clean-up-period.
	DefaultPeriod = 365 * 24 * time.Hour
	// interval is the time between two looks at all tokens.
	interval = 24 * time.Hour
	// retry is the time until the next look after one that has failed.
	retry = 10 * time.Minute

	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
	// trackingName is the ConfigMap that says, under trackingKey, since which day apiservers keep
	// lastUsedLabel.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey  = "since"
)

// reconciler looks at all tokens at once.
type reconciler struct {
	period   time.Duration
	tracking *controller.Objects[*corev1.ConfigMap]
	secrets  informer.SharedInformer[*corev1.Secret]
	accounts informer.SharedInformer[*corev1.ServiceAccount]
	pods     client.Resource[*corev1.Pod] // The informer's do not tell which Secrets they use.
	writer   client.Resource[*corev1.Secret]
	logger   *slog.Logger
}

// New declares the controller. A token that nobody has used for period is marked, and deleted after
// another period.
func New(d controller.Deps, period time.Duration) *controller.Spec {
	r := &reconciler{
		period:   period,
		tracking: controller.ForView[*corev1.ConfigMap](d, informer.View{Namespace: metav1.NamespaceSystem, Name: trackingName}),
		secrets:  informer.For[*corev1.Secret](d.Informers), accounts: informer.For[*corev1.ServiceAccount](d.Informers),
		pods: client.Of[*corev1.Pod](d.Client), writer: client.Of[*corev1.Secret](d.Client), logger: d.Logger,
	}
	r.tracking.Changed = func(old, now *corev1.ConfigMap) bool { return old.Data[trackingKey] != now.Data[trackingKey] }
	return &controller.Spec{
		Name: name, Resource: "configmaps", For: r.tracking,
		Watches:   []controller.Watch{controller.Reads(r.secrets), controller.Reads(r.accounts)},
		Reconcile: r.reconcile,
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	tracking, found := r.tracking.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	since, err := time.Parse(time.DateOnly, tracking.Data[trackingKey])
	if err != nil {
		r.logger.Warn("no unused service account token is removed because it is unknown since when their use is tracked",
			"namespace", key.Namespace, "name", key.Name, "err", err)
		return reconcile.Result{}, nil // An apiserver repairs it.
	}
	now := time.Now().UTC()
	// Uses are tracked for the whole of the next day on.
	if left := since.AddDate(0, 0, 1).Add(r.period).Sub(now); left > 0 {
		return reconcile.Result{RequeueAfter: min(left, interval)}, nil
	}
	var faults []error
	mounted := map[string]map[string]bool{}
	for _, secret := range r.secrets.Indexer().List() {
		if !r.unused(secret, now) {
			continue
		}
		used, err := r.mounted(ctx, mounted, secret)
		if err == nil && !used {
			err = r.remove(ctx, secret, now)
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		r.logger.Error("removing unused service account tokens failed; will retry", "failed", len(faults), "err", faults[0])
		return reconcile.Result{RequeueAfter: retry}, nil
	}
	return reconcile.Result{RequeueAfter: interval}, nil
}

// unused reports whether a Secret holds a token that Kubernetes created by itself, and that nobody has
// used for the period.
func (r *reconciler) unused(secret *corev1.Secret, now time.Time) bool {
	before := now.Add(-r.period)
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil ||
		!secret.CreationTimestamp.Time.Before(before) {
		return false
	}
	if last, labelled := secret.Labels[lastUsedLabel]; labelled {
		if _, err := time.Parse(time.DateOnly, last); err != nil || last >= before.Format(time.DateOnly) {
			return false
		}
	}
	account, found := r.accounts.Indexer().GetByKey(informer.KeyOf(secret.Namespace, secret.Annotations[corev1.ServiceAccountNameKey]))
	if uid := secret.Annotations[corev1.ServiceAccountUIDKey]; !found || uid != "" && uid != string(account.UID) {
		return false
	}
	// Kubernetes listed the Secrets that it created.
	return slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name })
}

// mounted reports whether a pod uses a Secret. Known are the Secrets of pods by namespace, as far as they
// were asked for.
func (r *reconciler) mounted(ctx context.Context, known map[string]map[string]bool, secret *corev1.Secret) (bool, error) {
	names, looked := known[secret.Namespace]
	if !looked {
		names = map[string]bool{}
		pods, _, err := r.pods.List(ctx, secret.Namespace, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("finding the pods that use Secrets of namespace %s: %w", secret.Namespace, err)
		}
		for _, pod := range pods {
			podreferences.Visit(pod, func(kind podreferences.Kind, name string) bool {
				if kind == podreferences.Secret {
					names[name] = true
				}
				return true
			})
		}
		known[secret.Namespace] = names
	}
	return names[secret.Name], nil
}

// remove marks a Secret, or deletes one that was marked long ago.
func (r *reconciler) remove(ctx context.Context, secret *corev1.Secret, now time.Time) error {
	invalidSince := secret.Labels[invalidSinceLabel]
	if _, err := time.Parse(time.DateOnly, invalidSince); err != nil {
		return r.mark(ctx, secret, now.Format(time.DateOnly))
	}
	if invalidSince >= now.Add(-r.period).Format(time.DateOnly) {
		return nil
	}
	// A use since would have changed the Secret.
	err := r.writer.Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{ResourceVersion: &secret.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting the unused service account token %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	r.logger.Info("unused service account token deleted", "namespace", secret.Namespace, "name", secret.Name,
		"created", secret.CreationTimestamp.Time, "lastUsed", secret.Labels[lastUsedLabel], "invalidSince", invalidSince)
	return nil
}

func (r *reconciler) mark(ctx context.Context, secret *corev1.Secret, day string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": secret.UID, "labels": map[string]string{invalidSinceLabel: day},
	}})
	if err != nil {
		return fmt.Errorf("encoding the mark of the unused service account token %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	_, err = r.writer.Patch(ctx, secret.Namespace, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("marking the unused service account token %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	r.logger.Info("unused service account token marked as invalid", "namespace", secret.Namespace, "name", secret.Name, "invalidSince", day)
	return nil
}
