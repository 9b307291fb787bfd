package eventratelimit

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
)

// limitType says which events share a bucket.
type limitType string

const (
	// server is one bucket for all events.
	server limitType = "Server"
	// namespace is one bucket for each namespace.
	namespace limitType = "Namespace"
	// user is one bucket for each user.
	user limitType = "User"
	// sourceAndObject is one bucket for each source and the object that its events are about.
	sourceAndObject limitType = "SourceAndObject"
)

func limitTypes() []limitType { return []limitType{server, namespace, user, sourceAndObject} }

// limit is a limit as the document has it.
type limit struct {
	Type limitType `json:"type"`
	// QPS is the number of events per second, and Burst the number of those at once.
	QPS   int32 `json:"qps"`
	Burst int32 `json:"burst"`
	// CacheSize is how many buckets are remembered; defaultCacheSize if 0.
	CacheSize int32 `json:"cacheSize,omitempty"`
}

type document struct {
	metav1.TypeMeta `json:",inline"`
	Limits          []limit `json:"limits"`
}

// load reads the limits. There must be at least one.
func load(data []byte) ([]limit, error) {
	var found document
	if len(data) > 0 {
		if err := configuration.DecodeKind(data, &found, "Configuration", "eventratelimit.admission.k8s.io/v1alpha1"); err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	if errs := validate(found.Limits); len(errs) > 0 {
		return nil, fmt.Errorf("the configuration is invalid: %w", errs.ToAggregate())
	}
	return found.Limits, nil
}

func validate(limits []limit) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("limits")
	if len(limits) == 0 {
		errs = append(errs, field.Invalid(path, limits, "must not be empty"))
	}
	for i, l := range limits {
		path := path.Index(i)
		if !slices.Contains(limitTypes(), l.Type) {
			errs = append(errs, field.NotSupported(path.Child("type"), l.Type, limitTypes()))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(path.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(path.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != server && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(path.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}
