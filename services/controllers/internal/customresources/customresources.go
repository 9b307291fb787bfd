// Package customresources keeps the table of the controllers' kinds in step with the
// CustomResourceDefinitions: each kind that one of them establishes is in the table.
package customresources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// retryPause is the time after which kinds that the table refused are tried again.
	retryPause = time.Second
	// patience is how long Refresh waits for the informer.
	patience = 10 * time.Second
)

type crd = apiextensionsv1.CustomResourceDefinition

// Definitions are the CustomResourceDefinitions. They are the only writer of the table.
type Definitions struct {
	table    *scheme.Table
	client   client.Interface
	logger   *slog.Logger
	informer informer.SharedInformer[*crd]
	kind     *scheme.Kind
	whole    chan struct{} // closed when the table has the kinds of a whole view

	mu        sync.Mutex
	installed map[string]installation // by the definition's name
	revision  int64                   // of the definitions that are in the table
}

// installation is what is in the table because of one definition.
type installation struct {
	uid     types.UID
	version string // the definition's resourceVersion
	kinds   []*scheme.Kind
}

// New returns the definitions and requests their informer.
func New(deps controller.Deps) *Definitions {
	return &Definitions{
		table: deps.Client.Table(), client: deps.Client, logger: deps.Logger,
		informer: informer.For[*crd](deps.Informers), kind: scheme.For[*crd](deps.Client.Table()),
		whole: make(chan struct{}), installed: map[string]installation{},
	}
}

// Name names the definitions in messages about waiting for them.
func (*Definitions) Name() string { return "the kinds of custom resources" }

// Done is closed when the table has the kinds of all definitions for the first time.
func (d *Definitions) Done() <-chan struct{} { return d.whole }

// Follow keeps the table in step until ctx ends. It is called once.
func (d *Definitions) Follow(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	registration, err := d.informer.AddEventHandler(informer.ResourceEventHandlerFuncs[*crd]{
		AddFunc:    func(*crd, bool) { wake() },
		UpdateFunc: func(_, _ *crd) { wake() },
		DeleteFunc: func(informer.DeletedObject[*crd]) { wake() },
	})
	if err != nil {
		return fmt.Errorf("adding an event handler: %w", err)
	}
	d.follow(ctx, changed)
	if err := d.informer.RemoveEventHandler(registration); err != nil {
		return fmt.Errorf("removing an event handler: %w", err)
	}
	return nil
}

func (d *Definitions) follow(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-d.informer.HasSyncedChecker().Done():
	case <-ctx.Done():
		return
	}
	again := time.NewTimer(0)
	defer again.Stop()
	for first := true; ; first = false {
		if err := d.install(); err != nil {
			d.logger.WarnContext(ctx, "cannot work with all custom resources", "err", err)
			again.Reset(backoff.Around(retryPause))
		}
		if first {
			close(d.whole)
		}
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// Refresh returns when the table has all kinds that were established before the call.
func (d *Definitions) Refresh(ctx context.Context) error {
	revision, err := controller.RevisionNow(ctx, d.client, d.kind)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return d.WaitForRevision(ctx, revision)
}

// WaitForRevision returns when the table has all kinds that were established at a revision.
func (d *Definitions) WaitForRevision(ctx context.Context, revision int64) error {
	d.mu.Lock()
	at := d.revision
	d.mu.Unlock()
	if at >= revision {
		return nil
	}
	if err := d.informer.WaitForRevision(ctx, revision); err != nil {
		return fmt.Errorf("waiting for the custom resource definitions of revision %d: %w", revision, err)
	}
	return d.install()
}

// install brings the table into step with the informer.
func (d *Definitions) install() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	revision := d.informer.Revision()
	changes, err := d.changes()
	if err != nil {
		return err
	}
	if err := d.apply(changes...); err != nil {
		// One of them is at fault. The others are not to suffer from that.
		var faults []error
		for _, one := range changes {
			faults = append(faults, d.apply(one))
		}
		if err := errors.Join(faults...); err != nil {
			return err
		}
	}
	d.revision = revision
	return nil
}

// change is a definition whose kinds in the table are not those that it has now: none if next is nil.
type change struct {
	name string
	next *installation
}

// changes returns what has changed since the last call of apply, removals first: a name that is given up may
// be another's from now on. The caller holds d.mu.
func (d *Definitions) changes() ([]change, error) {
	all := d.informer.Indexer().List()
	slices.SortFunc(all, func(a, b *crd) int { return strings.Compare(a.Name, b.Name) })
	established := map[string]bool{}
	var later []change
	for _, one := range all {
		if !isEstablished(one) {
			continue
		}
		established[one.Name] = true
		if was := d.installed[one.Name]; was.uid == one.UID && was.version == one.ResourceVersion {
			continue
		}
		kinds, err := customkinds.Kinds(one)
		if err != nil {
			return nil, err
		}
		later = append(later, change{one.Name, &installation{uid: one.UID, version: one.ResourceVersion, kinds: kinds}})
	}
	var changes []change
	for name := range d.installed {
		if !established[name] {
			changes = append(changes, change{name: name})
		}
	}
	return append(changes, later...), nil
}

// apply makes changes in the table, all or, on an error, none. Kinds that are equal stay the very same, so that
// whoever follows them goes on. The caller holds d.mu.
func (d *Definitions) apply(changes ...change) error {
	var gone, kinds []*scheme.Kind
	for _, one := range changes {
		was := d.installed[one.name]
		if one.next == nil {
			gone = append(gone, was.kinds...)
			continue
		}
		if was.uid == one.next.uid {
			one.next.keep(was.kinds)
		}
		if !slices.Equal(was.kinds, one.next.kinds) {
			gone, kinds = append(gone, was.kinds...), append(kinds, one.next.kinds...)
		}
	}
	if len(gone)+len(kinds) > 0 {
		if err := d.table.Replace(gone, kinds); err != nil {
			return err
		}
	}
	for _, one := range changes {
		if delete(d.installed, one.name); one.next != nil {
			d.installed[one.name] = *one.next
		}
	}
	return nil
}

// keep puts former kinds in the place of those that are equal.
func (i *installation) keep(former []*scheme.Kind) {
	for at, kind := range i.kinds {
		if same := slices.IndexFunc(former, func(one *scheme.Kind) bool { return reflect.DeepEqual(one, kind) }); same >= 0 {
			i.kinds[at] = former[same]
		}
	}
}

func isEstablished(one *crd) bool {
	return slices.ContainsFunc(one.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}
