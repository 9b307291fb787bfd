// Package storageversionmigrator rewrites every object of a resource in the form in which etcd holds new ones, for
// each StorageVersionMigration (kubernetes, pkg/controller/storageversionmigrator).
//
// Migrations of one resource take turns, the oldest first. Each goes through these steps, of which its status tells:
//
//   - It begins: condition Running; the CustomResourceDefinition, if there is one, gets StorageMigrating.
//   - status.resourceVersion becomes a revision that etcd has reached. Objects that are newer need no rewrite.
//   - Every other object gets a patch that changes nothing. The apiserver writes it if its form in etcd is another
//     one. If the object has changed or gone since it was read, somebody else has done that.
//   - It ends: condition Succeeded or Failed.
//   - It gives way: Running becomes false, and the definition forgets versions that etcd no longer holds.
package storageversionmigrator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// name is Kubernetes' name of the controller, of its queue, and of the writer of its patches.
	name    = "storage-version-migrator-controller"
	workers = 5

	// grace is how long the resource of a new migration may be unknown.
	grace = time.Minute
	// absentDelay is when an unknown resource is looked for again.
	absentDelay = time.Second

	failedReason  = "StorageVersionMigrationFailed"
	runningReason = "MigrationRunning"
	// unhandled begins the message of a failure.
	unhandled = "migration encountered unhandled error: "
)

type migration = *storagemigrationv1.StorageVersionMigration

// reconciler reconciles resources, by their StorageVersionMigrations. Its keys are resources: Name is
// "deployments.apps".
type reconciler struct {
	migrations *controller.Objects[migration]
	client     client.Interface
	logger     *slog.Logger
}

// New declares the controller of StorageVersionMigrations.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{migrations: controller.For[migration](d), client: d.Client, logger: d.Logger}
	r.migrations.Handle = r.changed
	return &controller.Spec{
		Name: name, Resource: "storageversionmigrations", Workers: workers, Unhurried: true,
		For: r.migrations, Reconcile: r.reconcile,
	}
}

// changed asks for a reconcile of a migration's resource; of all if the migration is gone, for it may have
// been the one for which others wait.
func (r *reconciler) changed(q controller.Queue, _, now migration) {
	if now != nil {
		q.AddKey(keyOf(now))
		return
	}
	for _, m := range r.migrations.In("") {
		q.AddKey(keyOf(m))
	}
}

func keyOf(m migration) controller.Key { return controller.Key{Name: m.Spec.Resource.String()} }

// reconcile makes the next step of the migrations of a resource. A step ends with a write of a status, which
// leads to the next one.
func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	var running, next migration
	for _, m := range r.inOrder(key) {
		switch ended := is(m, storagemigrationv1.MigrationSucceeded) || is(m, storagemigrationv1.MigrationFailed); {
		case ended && is(m, storagemigrationv1.MigrationRunning):
			if err := r.giveWay(ctx, m.DeepCopy()); err != nil {
				return reconcile.Result{}, err
			}
		case ended:
		case running == nil && is(m, storagemigrationv1.MigrationRunning):
			running = m.DeepCopy()
		case next == nil:
			next = m.DeepCopy()
		}
	}
	switch {
	case running != nil && running.Status.ResourceVersion == "":
		return r.checkpoint(ctx, running)
	case running != nil:
		return r.migrate(ctx, running)
	case next != nil:
		return reconcile.Result{}, r.begin(ctx, next)
	}
	return reconcile.Result{}, nil
}

// inOrder returns the migrations of a resource, the oldest first.
func (r *reconciler) inOrder(of controller.Key) []migration {
	all := slices.DeleteFunc(r.migrations.Indexer().List(), func(m migration) bool { return keyOf(m) != of })
	slices.SortFunc(all, func(a, b migration) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return all
}

// begin makes a migration the one that runs.
func (r *reconciler) begin(ctx context.Context, m migration) error {
	if err := r.markDefinition(ctx, m); err != nil {
		return err
	}
	setRunning(m, "The migration is running")
	r.logger.InfoContext(ctx, "storage version migration begins", "name", m.Name, "resource", m.Spec.Resource.String())
	return r.write(ctx, m)
}

// giveWay lets the next migration of the resource begin.
func (r *reconciler) giveWay(ctx context.Context, m migration) error {
	if err := r.unmarkDefinition(ctx, m); err != nil {
		return err
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: string(storagemigrationv1.MigrationRunning), Status: metav1.ConditionFalse,
		Reason: "MigrationCompleted", Message: "Migration completed", ObservedGeneration: m.Generation,
	})
	return r.write(ctx, m)
}

// fail ends a migration for a reason that would not go away.
func (r *reconciler) fail(ctx context.Context, m migration, message string) error {
	r.logger.WarnContext(ctx, "storage version migration failed", "name", m.Name, "resource", m.Spec.Resource.String(), "message", message)
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: string(storagemigrationv1.MigrationFailed), Status: metav1.ConditionTrue, Reason: failedReason, Message: message,
	})
	return r.write(ctx, m)
}

// absent waits for a resource that is not served, which a definition may be about to change, and then fails.
func (r *reconciler) absent(ctx context.Context, m migration, message string) (reconcile.Result, error) {
	if time.Since(m.CreationTimestamp.Time) < grace {
		return reconcile.Result{RequeueAfter: absentDelay}, nil
	}
	return reconcile.Result{}, r.fail(ctx, m, message)
}

// write writes the status of a migration, unless it is deleted.
func (r *reconciler) write(ctx context.Context, m migration) error {
	_, err := r.migrations.Client.UpdateStatus(ctx, m, metav1.UpdateOptions{FieldManager: name})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of the storage version migration %s: %w", m.Name, err)
	}
	return nil
}

// served returns the kind by which clients ask for the objects of a resource: the stored one if that is served; nil
// if there is none.
func (r *reconciler) served(of metav1.GroupResource) *scheme.Kind {
	var found *scheme.Kind
	for _, kind := range r.client.Table().Kinds() {
		if kind.Group == of.Group && kind.Resource == of.Resource && !kind.Unserved && (found == nil || kind.Stored()) {
			found = kind
		}
	}
	return found
}

func is(m migration, condition storagemigrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

// setRunning reports whether the message of the condition Running has changed.
func setRunning(m migration, message string) bool {
	return meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: string(storagemigrationv1.MigrationRunning), Status: metav1.ConditionTrue, Reason: runningReason, Message: message,
	})
}
