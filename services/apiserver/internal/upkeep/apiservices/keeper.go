package apiservices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

type (
	service    = apiregistrationv1.APIService
	definition = apiextensionsv1.CustomResourceDefinition
)

const (
	// writer is the field manager of these writes; the name is Kubernetes'.
	writer = "kube-apiserver"
	// retryPause is how long the keeper waits after a failure, and retryLargest after many.
	retryPause   = time.Second
	retryLargest = time.Minute
)

// Config configures a Keeper. All fields but Logger are required.
type Config struct {
	Table    *scheme.Table
	Registry *registry.Registry
	// Feeds are the watch caches, whose changes the keeper follows.
	Feeds *feed.Feeds
	// Logger receives what fails; slog.Default if nil.
	Logger *slog.Logger
}

// Keeper keeps the APIServices of the groups and versions that the apiserver serves itself. It changes
// none that lacks the label of those. Every apiserver has a Keeper, and all write the same.
type Keeper struct {
	cfg         Config
	services    *scheme.Kind
	definitions *scheme.Kind
}

// New returns a keeper. Nothing happens before Begin.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Keeper{cfg: cfg, services: scheme.For[*service](cfg.Table), definitions: scheme.For[*definition](cfg.Table)}
}

// Begin brings the objects of all served groups and versions up to date. It also deletes those that an
// earlier apiserver created for something that is no longer served. The objects of the built-in groups
// are then left alone until the next start.
func (k *Keeper) Begin(ctx context.Context) error {
	builtIn, err := Of(k.cfg.Table)
	if err != nil {
		return err
	}
	there, custom, err := k.read(ctx)
	if err != nil {
		return err
	}
	wanted := custom
	for _, one := range builtIn {
		wanted[one.Name] = one
	}
	return k.bring(ctx, there, wanted, isManaged)
}

// Run keeps the objects of custom resources in step with their definitions until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		err := k.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.cfg.Logger.InfoContext(ctx, "reading APIServices and the definitions of custom resources again", "err", err)
		if !backoff.Sleep(ctx, backoff.Around(retryPause)) {
			return nil
		}
	}
}

// follow keeps the objects until it can no longer see changes.
func (k *Keeper) follow(ctx context.Context) error {
	var watchers [2]*feed.Watcher
	for i, kind := range []*scheme.Kind{k.services, k.definitions} {
		_, watcher, err := k.cfg.Feeds.Of(kind).ReadAndWatch(ctx, fabric.View{}, 0)
		if err != nil {
			return err
		}
		defer watcher.Stop()
		watchers[i] = watcher
	}
	again := time.NewTimer(0)
	defer again.Stop()
	delays := retries()
	for {
		select {
		case <-ctx.Done():
			return nil
		case batch, open := <-watchers[0].Events():
			if !open {
				return fmt.Errorf("the watch of APIServices ended: %w", watchers[0].Err())
			}
			if len(batch.Events) == 0 {
				continue
			}
		case batch, open := <-watchers[1].Events():
			if !open {
				return fmt.Errorf("the watch of definitions ended: %w", watchers[1].Err())
			}
			if len(batch.Events) == 0 {
				continue
			}
		case <-again.C:
		}
		skip(watchers[0])
		skip(watchers[1])
		if err := k.keep(ctx); err == nil {
			delays = retries()
		} else if ctx.Err() == nil {
			k.cfg.Logger.WarnContext(ctx, "keeping the APIServices of custom resources failed; will retry", "err", err)
			again.Reset(delays.Step())
		}
	}
}

// retries returns the delays after failures.
func retries() wait.Backoff { return backoff.Doubling(retryPause/2, retryLargest/2, 2) }

// skip discards the batches that are at hand: one look at everything covers them all.
func skip(watcher *feed.Watcher) {
	for len(watcher.Events()) > 0 {
		<-watcher.Events()
	}
}

// keep brings the objects of custom resources into step with the definitions.
func (k *Keeper) keep(ctx context.Context) error {
	there, wanted, err := k.read(ctx)
	if err != nil {
		return err
	}
	return k.bring(ctx, there, wanted, func(one *service) bool { return one.Labels[managed] == always })
}

// read returns the objects that exist, and those that custom resources are to have, both by name. What it
// returns is as it is in etcd now. The definitions are read last: an object that another apiserver has
// created is not found without its definition.
func (k *Keeper) read(ctx context.Context) (there, custom map[string]*service, err error) {
	found, err := k.cfg.Registry.Resource(k.services).Read(ctx, "", metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading APIServices: %w", err)
	}
	there = map[string]*service{}
	for _, item := range found.Items {
		if one, ok := item.Object.(*service); ok {
			there[one.Name] = one
		}
	}
	defined, err := k.cfg.Registry.Resource(k.definitions).Read(ctx, "", metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the definitions of custom resources: %w", err)
	}
	var definitions []*definition
	for _, item := range defined.Items {
		if one, ok := item.Object.(*definition); ok {
			definitions = append(definitions, one)
		}
	}
	return there, OfCustom(k.cfg.Table, definitions), nil
}

// bring creates the wanted objects that are missing, and changes and deletes those of the existing ones for
// which ours returns true.
func (k *Keeper) bring(ctx context.Context, there, wanted map[string]*service, ours func(*service) bool) error {
	var errs []error
	resource := k.cfg.Registry.Resource(k.services)
	for name, want := range wanted {
		have := there[name]
		var err error
		switch {
		case have == nil:
			_, err = resource.Create(ctx, "", want, metav1.CreateOptions{FieldManager: writer})
		case ours(have) && !apiequality.Semantic.DeepEqual(have.Spec, want.Spec):
			_, err = resource.Update(ctx, "", name, func(current scheme.Object) (scheme.Object, error) { return respecified(current, want, ours) },
				registry.UpdateOptions{FieldManager: writer})
		}
		// Another apiserver was faster, or its change will be seen.
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("writing the APIService %s: %w", name, err))
		}
	}
	for name, have := range there {
		if wanted[name] != nil || !ours(have) {
			continue
		}
		as := &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}
		_, _, err := resource.Delete(ctx, "", name, metav1.DeleteOptions{Preconditions: as})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting the APIService %s, which nothing serves: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// respecified returns an object with the wanted specification, unless a user has taken it over.
func respecified(current scheme.Object, want *service, ours func(*service) bool) (scheme.Object, error) {
	have, ok := current.(*service)
	if !ok {
		return nil, fmt.Errorf("found a %T", current)
	}
	if !ours(have) {
		return current, nil
	}
	next := have.DeepCopy()
	next.Spec = *want.Spec.DeepCopy()
	return next, nil
}

// isManaged reports whether an apiserver created an object.
func isManaged(one *service) bool {
	return one.Labels[managed] == onStart || one.Labels[managed] == always
}
