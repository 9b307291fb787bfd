// Package generated holds the schemas of the API's Go types, as k8s.io/api documents them.
package generated

//go:generate go run k8s.io/kube-openapi/cmd/openapi-gen --go-header-file header.txt --output-dir . --output-pkg github.com/garboard/garboard/services/apiserver/internal/openapi/generated --output-file zz_generated.openapi.go --report-filename /dev/null k8s.io/api/core/v1 k8s.io/api/apps/v1 k8s.io/api/events/v1 k8s.io/api/coordination/v1 k8s.io/api/discovery/v1 k8s.io/api/autoscaling/v1 k8s.io/api/authentication/v1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/util/intstr
