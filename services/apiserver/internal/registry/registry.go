package registry

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/perkind"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/plugins"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
	"github.com/garboard/garboard/services/apiserver/internal/registry/turns"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Config configures a Registry. Catalog, Store and Feeds are required.
type Config struct {
	// Catalog is the set of served kinds.
	Catalog *kinds.Catalog
	// Store reads and writes etcd.
	Store *store.Store
	// Feeds are the watch caches. Their creator runs them.
	Feeds *feed.Feeds
	// Logger receives what goes wrong outside requests; slog.Default if nil.
	Logger *slog.Logger
	// Registerer registers the metrics of admission plugins; nil for none.
	Registerer prometheus.Registerer
	// Authorizer tells admission plugins whether the user may do what a write implies.
	Authorizer authz.Authorizer
	// Admission are admission plugins in addition to the built-in ones, EnableAdmission and DisableAdmission
	// names of plugins against the default, and AdmissionConfigurations the plugins' own, by name.
	Admission                         []admission.Plugin
	EnableAdmission, DisableAdmission []string
	AdmissionConfigurations           map[string][]byte
	Identity                          string       // names the apiserver in metrics
	Dial                              webhook.Dial // connects to webhooks; a net.Dialer's if nil
}

// Registry provides the resource of every served kind.
type Registry struct {
	config    Config
	log       *slog.Logger
	table     *scheme.Table
	resources *perkind.Memo[Resource]
	admission *admission.Chain
	owners    *managedfields.Owners
	turns     *turns.Turns // of costly validations
}

// New returns the registry of all kinds of config.Catalog. It starts nothing.
func New(config Config) (*Registry, error) {
	if config.Catalog == nil || config.Store == nil || config.Feeds == nil {
		return nil, fmt.Errorf("creating a registry: a catalog, a store and feeds are required")
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	table := config.Catalog.Table()
	r := &Registry{
		config: config, log: config.Logger, table: table, turns: turns.New(),
	}
	r.owners = managedfields.New(managedfields.Config{Table: table, Conversion: r.conversion, Definition: config.Catalog.Of, Logger: config.Logger})
	admit, err := plugins.New(plugins.Config{
		Table: table, Lookup: lookup{r}, Authorizer: config.Authorizer, Extra: config.Admission,
		Definitions: struct {
			*kinds.Catalog
			*managedfields.Owners
		}{config.Catalog, r.owners}, Logger: config.Logger, Registerer: config.Registerer,
		Enable: config.EnableAdmission, Disable: config.DisableAdmission, Configurations: config.AdmissionConfigurations, Identity: config.Identity, Dial: config.Dial,
	})
	if err != nil {
		return nil, err
	}
	r.admission = admit
	r.resources = perkind.NewMemo(table, r.resourceOf)
	return r, nil
}

// Close ends what admission plugins keep between requests, such as connections to webhooks. No request
// may be under way.
func (r *Registry) Close() { r.admission.Close() }

// Resource returns the operations on one kind of the catalog; nil for a kind that is not served, and
// for a virtual kind, of which nothing is stored. The resource of an observed kind can produce Tables
// and nothing else.
func (r *Registry) Resource(kind *scheme.Kind) *Resource { return r.resources.Of(kind) }

// resourceOf returns the operations on a kind; nil if there are none.
func (r *Registry) resourceOf(kind *scheme.Kind) *Resource {
	definition, stored := r.config.Catalog.Of(kind), r.table.Kind(kind.Storage)
	switch {
	case !r.table.Serves(kind):
		return nil
	case !kind.Virtual && definition != nil && stored != nil: // It has both unless it is removed at this moment.
		return &Resource{
			registry: r, kind: kind, stored: stored, strategy: definition, admission: r.admission, store: r.config.Store.Of(kind),
			owners: r.owners.With(definition),
		}
	case kind.Observed:
		return &Resource{registry: r, kind: kind}
	}
	return nil
}

// Resource provides the operations on one kind. Its errors are API errors, ready for the client.
type Resource struct {
	registry  *Registry
	kind      *scheme.Kind // as requested
	stored    *scheme.Kind // as etcd holds it
	strategy  *kinds.Definition
	admission *admission.Chain
	store     *store.Store
	owners    *managedfields.Owners // by the same definition as the strategy
}

// Kind returns the table's row of the kind that the resource serves.
func (r *Resource) Kind() *scheme.Kind { return r.kind }

// UpdateOptions configures an update.
type UpdateOptions struct {
	// Subresource is empty for the object itself, or for example "status".
	Subresource string
	// DryRun does everything except write.
	DryRun bool
	// FieldManager names the writer, which becomes the owner of the fields that it changes.
	FieldManager string
	// Force lets an Apply take fields from other owners.
	Force bool
	// record determines how the owners of the fields are recorded.
	record record
	// applied reports whether the change is an Apply, which creates the object if there is none.
	applied bool
	// Admitted is how admission plugins see a part that is written as the object itself; nil if they see
	// the object.
	Admitted *Admitted
	// OwnersGiven means that the change itself sets the owners of the fields.
	OwnersGiven bool
	// Created, if not nil, is set to whether the update created the object. An Apply does that, and
	// a PUT of an unknown name for kinds that allow it.
	Created *bool
}

// Admitted shows a part of an object to admission plugins as clients see it.
type Admitted struct {
	// Subresource is the name of the part, for example "scale".
	Subresource string
	// Show returns the part of obj. Take puts a part that plugins may have changed into obj.
	Show func(obj scheme.Object) (scheme.Object, error)
	Take func(obj, shown scheme.Object) error
}

// Table returns objs, which are of the kind or the one object of a subresource, as the Table that
// kubectl prints. listMeta may be nil.
func (r *Resource) Table(objs []scheme.Object, listMeta *metav1.ListMeta, opts columns.Options) *metav1.Table {
	kind := r.kind.GroupVersionKind
	if len(objs) == 1 && !r.kind.Holds(objs[0]) {
		kind = objs[0].GetObjectKind().GroupVersionKind()
	}
	return r.registry.config.Catalog.Columns(kind).Table(objs, listMeta, opts, time.Now())
}

// Warnings returns the warnings about what a client sent, before anything changes it. Create and Update
// pass those about what it means, by way of admission.WithWarnings.
func (r *Resource) Warnings(obj scheme.Object, subresource string) []string {
	return r.kind.Ignored(obj, subresource)
}

// ReturnsDeleted reports whether DELETE responds with the deleted object instead of a Status.
func (r *Resource) ReturnsDeleted() bool { return r.strategy.ReturnDeleted }
