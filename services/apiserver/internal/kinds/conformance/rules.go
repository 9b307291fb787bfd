package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/metadata"
)

// UID is the UID of every object in a Case.
const UID types.UID = "10000000-2000-4000-8000-300000000000"

// User returns the user of every request.
func User() authn.User {
	return authn.User{
		Name: "jane", UID: "u-1", Groups: []string{"developers", "system:authenticated"},
		Extra: map[string][]string{"example.com/team": {"blue"}},
	}
}

// Rules answers cases by the rules of the apiserver's kinds, in the order in which its registry
// applies them. It is safe for concurrent use.
type Rules struct {
	table       *scheme.Table
	definitions map[schema.GroupVersionKind]*kinds.Definition
}

// New returns the rules of all kinds of a table.
func New(table *scheme.Table) *Rules {
	return &Rules{table: table, definitions: builtin.All(builtin.Config{})}
}

// Subresources returns the subresources of a kind that have rules for updates.
func (r *Rules) Subresources(kind *scheme.Kind) []string {
	var names []string
	for _, s := range kind.Subresources {
		if _, ok := r.definitions[kind.GroupVersionKind].Subresources[s.Name]; ok {
			names = append(names, s.Name)
		}
	}
	return names
}

// Answer answers a case. An error means that the case is malformed.
func (r *Rules) Answer(c Case) (Answer, error) {
	kind := r.table.Kind(c.Kind)
	if kind == nil {
		return Answer{}, fmt.Errorf("there is no kind %s", c.Kind)
	}
	obj, err := decode(kind, c.Object)
	if err != nil {
		return Answer{}, err
	}
	switch c.Op {
	case OpCreate:
		return r.create(kind, obj)
	case OpPrint:
		return r.print(kind, obj), nil
	}
	old, err := decode(kind, c.Old)
	if err != nil {
		return Answer{}, err
	}
	_, subresource, _ := strings.Cut(c.Op, "/")
	return r.update(kind, subresource, obj, old)
}

func (r *Rules) create(kind *scheme.Kind, obj scheme.Object) (Answer, error) {
	s := r.definitions[kind.GroupVersionKind]
	var answer Answer
	if s.Default != nil {
		s.Default(obj)
	}
	if err := encode(&answer.Defaulted, obj); err != nil {
		return Answer{}, err
	}
	obj.SetUID(UID)
	obj.SetCreationTimestamp(metav1.NewTime(time.Now()).Rfc3339Copy())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetGeneration(0)
	var warnings []string
	if s.ReplacedWarnings != nil {
		warnings = s.ReplacedWarnings(obj)
	}
	if s.PrepareForCreate != nil {
		s.PrepareForCreate(obj)
	}
	if s.Author != nil {
		s.Author(obj, User())
	}
	errs := s.Validate(obj)
	if errs = metadata.Validate(obj, kind.Namespaced, errs); len(errs) > 0 {
		answer.Errors = ErrorTexts(errs)
		return answer, nil
	}
	for _, about := range []func(scheme.Object) []string{s.Warnings, s.CreationWarnings} {
		if about != nil {
			warnings = append(warnings, about(obj)...)
		}
	}
	answer.Warnings = Sorted(warnings)
	return answer, r.stored(&answer, s, obj)
}

func (r *Rules) update(kind *scheme.Kind, subresource string, obj, old scheme.Object) (Answer, error) {
	s := r.definitions[kind.GroupVersionKind]
	rules := s.Update
	var answer Answer
	if subresource != "" {
		rules = s.Subresources[subresource]
	}
	if s.Default != nil {
		s.Default(obj)
	}
	if err := encode(&answer.Defaulted, obj); err != nil {
		return Answer{}, err
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	obj.SetGeneration(old.GetGeneration())
	if rules.Prepare != nil {
		rules.Prepare(obj, old)
	}
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	var errs field.ErrorList
	errs = append(errs, metadata.ValidateUpdate(obj, old)...)
	if rules.Validate != nil {
		errs = append(errs, rules.Validate(obj, old)...)
	}
	if len(errs) > 0 {
		answer.Errors = ErrorTexts(errs)
		return answer, nil
	}
	if rules.Warnings != nil {
		answer.Warnings = Sorted(rules.Warnings(obj, old))
	}
	return answer, r.stored(&answer, s, obj)
}

// stored adds the stored form of an accepted object to the answer.
func (r *Rules) stored(answer *Answer, s *kinds.Definition, obj scheme.Object) error {
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	stored, err := s.ToStored.One(obj)
	if err != nil {
		return err
	}
	if obj, err = s.FromStored.One(stored); err != nil {
		return err
	}
	return encode(&answer.Stored, obj)
}

// print prints an object as it is read from storage, with its defaults.
func (r *Rules) print(kind *scheme.Kind, obj scheme.Object) Answer {
	if s := r.definitions[kind.GroupVersionKind]; s.Default != nil {
		s.Default(obj)
	}
	table := r.definitions[kind.GroupVersionKind].Columns.Table([]scheme.Object{obj}, nil, columns.Options{}, time.Now())
	var answer Answer
	for _, column := range table.ColumnDefinitions {
		answer.Columns = append(answer.Columns, fmt.Sprintf("%s %s %d", column.Name, column.Type, column.Priority))
	}
	for _, cell := range table.Rows[0].Cells {
		answer.Cells = append(answer.Cells, fmt.Sprint(cell))
	}
	return answer
}

func decode(kind *scheme.Kind, data []byte) (scheme.Object, error) {
	obj := kind.New()
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", kind.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	return obj, nil
}

func encode(into *json.RawMessage, obj scheme.Object) error {
	data, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encoding a %T: %w", obj, err)
	}
	*into = data
	return nil
}
