// Package upstream asks Kubernetes' own code what happens to the objects of a case.
package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	apiserviceregistry "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/conformance"
)

// Oracle answers cases as Kubernetes does, with its feature gates as they are by default.
type Oracle struct {
	table   *scheme.Table
	rules   map[string]rules
	printer *printers.HumanReadableGenerator
}

// New returns an oracle for the kinds of a table.
func New(table *scheme.Table) (*Oracle, error) {
	rules, err := strategies()
	if err != nil {
		return nil, err
	}
	return &Oracle{
		table: table, rules: rules,
		printer: printers.NewTableGenerator().With(printersinternal.AddHandlers),
	}, nil
}

// Knows reports whether Kubernetes has rules for a kind.
func (o *Oracle) Knows(kind schema.GroupVersionKind) bool {
	_, ok := o.rules[name(kind)]
	return ok
}

func name(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}

// ErrNoAnswer means that Kubernetes' code panics, or fails to print, so that nobody can depend on it.
var ErrNoAnswer = errors.New("Kubernetes has no answer")

// Answer answers a case. An error means that the case is malformed.
func (o *Oracle) Answer(c conformance.Case) (answer conformance.Answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrNoAnswer, r)
		}
	}()
	a := asked{rules: o.rules[name(c.Kind)], kind: o.table.Kind(c.Kind)}
	obj, err := a.decode(c.Object)
	if err != nil {
		return conformance.Answer{}, err
	}
	switch {
	case c.Op == conformance.OpCreate:
		return a.create(obj)
	case c.Op == conformance.OpPrint:
		return o.print(a, obj)
	}
	old, err := a.decode(c.Old)
	if err != nil {
		return conformance.Answer{}, err
	}
	_, subresource, _ := strings.Cut(c.Op, "/")
	return a.update(subresource, obj, old)
}

// asked is one question about an object of a kind.
type asked struct {
	rules rules
	kind  *scheme.Kind
}

func (a asked) decode(data []byte) (runtime.Object, error) {
	obj := a.kind.New()
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", a.kind.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(a.kind.GroupVersionKind)
	return obj, nil
}

// internal returns an object with its defaults in Kubernetes' internal form, and saves the external
// form of that.
func (a asked) internal(obj runtime.Object, defaulted *json.RawMessage) (runtime.Object, error) {
	a.rules.scheme.Default(obj)
	// As in a request, the internal form shares what the defaults share: the labels of jobs and of their pods.
	internal, err := runtime.UnsafeObjectConvertor(a.rules.scheme).ConvertToVersion(obj, schema.GroupVersion{Group: a.kind.Group, Version: runtime.APIVersionInternal})
	if err != nil || defaulted == nil {
		return internal, err
	}
	external, err := a.rules.scheme.ConvertToVersion(internal.DeepCopyObject(), a.kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	*defaulted, err = json.Marshal(external)
	return internal, err
}

func (a asked) create(obj runtime.Object) (conformance.Answer, error) {
	var answer conformance.Answer
	internal, err := a.internal(obj, &answer.Defaulted)
	if err != nil {
		return conformance.Answer{}, err
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return conformance.Answer{}, err
	}
	rest.WipeObjectMetaSystemFields(metadata)
	metadata.SetUID(conformance.UID)
	metadata.SetCreationTimestamp(metav1.NewTime(time.Now()).Rfc3339Copy())
	var prepared warnings
	ctx := a.context(metadata.GetNamespace(), "", &prepared)
	finish, err := a.begin(ctx, &answer, internal, nil)
	if err != nil || len(answer.Errors) > 0 {
		return answer, err
	}
	a.rules.whole.PrepareForCreate(ctx, internal)
	if errs := rest.ValidateCreate(ctx, internal, a.rules.whole); len(errs) > 0 {
		answer.Errors = conformance.ErrorTexts(errs)
		return answer, nil
	}
	answer.Warnings = conformance.Sorted(append(prepared, a.rules.whole.WarningsOnCreate(ctx, internal)...))
	a.rules.whole.Canonicalize(internal)
	finish()
	return answer, a.stored(&answer, internal)
}

func (a asked) update(subresource string, obj, old runtime.Object) (conformance.Answer, error) {
	var how rest.RESTUpdateStrategy = a.rules.whole
	if subresource != "" {
		how = a.rules.parts[subresource]
	}
	if how == nil {
		return conformance.Answer{}, fmt.Errorf("Kubernetes has no rules for %s", subresource)
	}
	var answer conformance.Answer
	internal, err := a.internal(obj, &answer.Defaulted)
	if err != nil {
		return conformance.Answer{}, err
	}
	was, err := a.internal(old, nil)
	if err != nil {
		return conformance.Answer{}, err
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return conformance.Answer{}, err
	}
	before, err := meta.Accessor(was)
	if err != nil {
		return conformance.Answer{}, err
	}
	var prepared warnings
	ctx := a.context(metadata.GetNamespace(), subresource, &prepared)
	metadata.SetResourceVersion(before.GetResourceVersion())
	metadata.SetGeneration(before.GetGeneration())
	finish := func() {}
	if subresource == "" {
		finish, err = a.begin(ctx, &answer, internal, was)
	}
	if err != nil || len(answer.Errors) > 0 {
		return answer, err
	}
	how.PrepareForUpdate(ctx, internal, was)
	metadata.SetUID(before.GetUID())
	metadata.SetCreationTimestamp(before.GetCreationTimestamp())
	if errs := rest.ValidateUpdate(ctx, internal, was, how); len(errs) > 0 {
		answer.Errors = conformance.ErrorTexts(errs)
		return answer, nil
	}
	answer.Warnings = conformance.Sorted(append(prepared, how.WarningsOnUpdate(ctx, internal, was)...))
	how.Canonicalize(internal)
	finish()
	return answer, a.stored(&answer, internal)
}

// begin completes an object as its registry does before the strategy sees it, and saves the reasons for
// which that rejects it. finish belongs to an accepted object.
func (a asked) begin(ctx context.Context, answer *conformance.Answer, obj, old runtime.Object) (finish func(), err error) {
	if a.rules.registry.begin == nil {
		return func() {}, nil
	}
	finish, rejected := a.rules.registry.begin(ctx, obj, old)
	if rejected != nil {
		answer.Errors, err = causes(rejected)
	}
	return finish, err
}

// stored adds the form in which an object is read back from storage.
func (a asked) stored(answer *conformance.Answer, internal runtime.Object) error {
	if a.rules.registry.read != nil {
		a.rules.registry.read(internal)
	}
	obj, err := a.rules.scheme.ConvertToVersion(internal, a.kind.GroupVersion())
	if err != nil {
		return err
	}
	a.rules.scheme.Default(obj)
	answer.Stored, err = json.Marshal(obj)
	return err
}

// warnings are those that Kubernetes' code adds to a response while it prepares an object.
type warnings []string

// AddWarning adds a warning of an agent, which is always empty.
func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func (a asked) context(namespace, subresource string, prepared *warnings) context.Context {
	who := conformance.User()
	// Kubernetes logs where its handwritten and its declarative validation differ.
	ctx := warning.WithWarningRecorder(logr.NewContext(context.Background(), logr.Discard()), prepared)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: who.Name, UID: who.UID, Groups: who.Groups, Extra: who.Extra})
	return request.WithRequestInfo(request.WithNamespace(ctx, namespace), &request.RequestInfo{
		IsResourceRequest: true, APIGroup: a.kind.Group, APIVersion: a.kind.Version, Resource: a.kind.Resource,
		Subresource: subresource, Namespace: namespace,
	})
}

// tableOf returns the table that the kind's registry makes of an object.
func (o *Oracle) tableOf(a asked, internal runtime.Object) (*metav1.Table, error) {
	switch a.kind.Kind {
	case "ClusterRole", "CSIStorageCapacity", "LimitRange", "Role":
		return rest.NewDefaultTableConvertor(a.kind.GroupResource()).ConvertToTable(context.Background(), internal, nil)
	case "APIService":
		return (&apiserviceregistry.REST{}).ConvertToTable(context.Background(), internal, nil)
	}
	return o.printer.GenerateTable(internal, printers.GenerateOptions{Wide: true})
}

func (o *Oracle) print(a asked, obj runtime.Object) (conformance.Answer, error) {
	internal, err := a.internal(obj, nil)
	if err != nil {
		return conformance.Answer{}, err
	}
	table, err := o.tableOf(a, internal)
	if err != nil {
		return conformance.Answer{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	var answer conformance.Answer
	for _, column := range table.ColumnDefinitions {
		answer.Columns = append(answer.Columns, fmt.Sprintf("%s %s %d", column.Name, column.Type, column.Priority))
	}
	// IPAddress has a cell beyond its columns, which no client shows.
	for _, cell := range table.Rows[0].Cells[:min(len(table.ColumnDefinitions), len(table.Rows[0].Cells))] {
		answer.Cells = append(answer.Cells, fmt.Sprint(cell))
	}
	return answer, nil
}
