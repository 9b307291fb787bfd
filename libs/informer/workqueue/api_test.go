package workqueue_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The deliberate differences between the exported names here and in client-go; each must exist.
var (
	// differentAPI has another signature: client-go's, and ours.
	differentAPI = map[string][2]string{
		// The type is the same: klog.Logger is an alias of logr.Logger (TestLoggerIsOfKlogsType).
		// Garboard does not log through klog.
		"TypedDelayingQueueConfig.Logger": {"field *klog.Logger", "field *logr.Logger"},
	}
	// additionalAPI exists only here.
	additionalAPI = []string{
		"DelayedItems", "DropDelayed", "ErrShutDown", "HandOutDelayed", "WaitForDelayed",
		"NewTypedJitteredRateLimiter", "TypedJitteredRateLimiter", "TypedJitteredRateLimiter.Forget",
		"TypedJitteredRateLimiter.NumRequeues", "TypedJitteredRateLimiter.When",
		"Typed.Drain", "TypedScheduler",
		"TypedScheduler.AddAfterIfAbsent", "TypedScheduler.CancelAfter", "TypedScheduler.Delayed",
		"TypedScheduler.Drain", "TypedScheduler.ReplaceAfter",
		// the queue with priorities
		"AddOpts", "AddOpts.After", "AddOpts.Priority", "AddOpts.RateLimited", "LowPriority",
		"NewTypedPriorityQueue", "TypedPriorityInterface", "TypedPriorityInterface.AddWithOpts",
		"TypedPriorityInterface.GetWithPriority", "TypedPriorityQueueConfig", "TypedPriorityQueueConfig.Clock",
		"TypedPriorityQueueConfig.MetricsProvider", "TypedPriorityQueueConfig.Name",
		"DepthMetricWithPriority", "DepthMetricWithPriority.Dec", "DepthMetricWithPriority.Inc",
		"MetricsProviderWithPriority", "MetricsProviderWithPriority.NewDepthMetricWithPriority",
	}
)

// TestExportedNamesAreClientGos checks that every exported name of client-go's package exists here,
// with its signature, and nothing else except the listed names. It reads both packages from their
// sources (checklist 17).
func TestExportedNamesAreClientGos(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "k8s.io/client-go/util/workqueue").CombinedOutput()
	if err != nil {
		t.Fatalf("finding client-go's sources: %v\n%s", err, out)
	}
	theirs, ours := exported(t, strings.TrimSpace(string(out))), exported(t, ".")
	if len(theirs) < 100 {
		t.Fatalf("only %d exported names were found in client-go", len(theirs))
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		want, have := theirs[name], ours[name]
		if different, ok := differentAPI[name]; ok {
			if different[0] != want {
				t.Errorf("%s: client-go has %q, not %q: remove it from the differences", name, want, different[0])
			}
			want = different[1]
		}
		if want != have {
			t.Errorf("%s\n\tis   %q\n\twant %q", name, have, want)
		}
		delete(ours, name)
	}
	slices.Sort(additionalAPI)
	if additional := slices.Sorted(maps.Keys(ours)); !slices.Equal(additional, additionalAPI) {
		t.Errorf("names that client-go does not have: %q, listed are %q", additional, additionalAPI)
	}
}

// api collects the exported names of one package with their signatures in a normal form: the names
// of type parameters and of parameters do not count.
type api struct {
	names map[string]string
	// methods are the methods by type, embedding the types that each type embeds.
	methods   map[string]map[string]string
	embedding map[string][]string
}

func exported(t *testing.T, dir string) map[string]string {
	t.Helper()
	a := api{names: map[string]string{}, methods: map[string]map[string]string{}, embedding: map[string][]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				a.function(d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						a.typeSpec(s)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							a.note(name.Name, d.Tok.String())
						}
					}
				}
			}
		}
	}
	for outer, inners := range a.embedding { // Promoted methods are methods.
		for _, inner := range inners {
			for name, signature := range a.methods[inner] {
				a.note(outer+"."+name, signature)
			}
		}
	}
	return a.names
}

func (a *api) note(name, what string) {
	for part := range strings.SplitSeq(name, ".") {
		if !ast.IsExported(part) {
			return
		}
	}
	a.names[name] = what
}

func (a *api) function(d *ast.FuncDecl) {
	if d.Recv == nil {
		a.note(d.Name.Name, "func"+signature(d.Type, parameters(d.Type.TypeParams)))
		return
	}
	receiver, pointer := d.Recv.List[0].Type, ""
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver, pointer = star.X, "*"
	}
	renamed := map[string]string{}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
		renamed[generic.Index.(*ast.Ident).Name] = "T0"
	}
	name := receiver.(*ast.Ident).Name
	if a.methods[name] == nil {
		a.methods[name] = map[string]string{}
	}
	what := "method " + pointer + signature(d.Type, renamed)
	a.methods[name][d.Name.Name] = what
	a.note(name+"."+d.Name.Name, what)
}

func (a *api) typeSpec(s *ast.TypeSpec) {
	renamed := parameters(s.TypeParams)
	constraints := constraintsOf(s.TypeParams, renamed)
	switch body := s.Type.(type) {
	case *ast.InterfaceType:
		a.note(s.Name.Name, "interface"+constraints)
		for _, method := range body.Methods.List {
			if len(method.Names) == 0 {
				a.names[s.Name.Name] += " embeds " + text(method.Type, renamed)
				continue
			}
			a.note(s.Name.Name+"."+method.Names[0].Name, signature(method.Type.(*ast.FuncType), renamed))
		}
	case *ast.StructType:
		a.note(s.Name.Name, "struct"+constraints)
		for _, field := range body.Fields.List {
			for _, name := range field.Names {
				a.note(s.Name.Name+"."+name.Name, "field "+text(field.Type, renamed))
			}
			if len(field.Names) == 0 {
				embedded, _, _ := strings.Cut(text(field.Type, renamed), "[")
				a.embedding[s.Name.Name] = append(a.embedding[s.Name.Name], embedded)
				a.note(s.Name.Name+"."+strings.TrimPrefix(embedded[strings.LastIndex(embedded, ".")+1:], "*"), "embedded "+embedded)
			}
		}
	default:
		kind := "type "
		if s.Assign.IsValid() {
			kind = "alias "
		}
		a.note(s.Name.Name, kind+constraints+text(s.Type, renamed))
	}
}

// parameters names type parameters by their positions.
func parameters(list *ast.FieldList) map[string]string {
	renamed := map[string]string{}
	if list != nil {
		for _, field := range list.List {
			for _, name := range field.Names {
				renamed[name.Name] = "T" + strconv.Itoa(len(renamed))
			}
		}
	}
	return renamed
}

func constraintsOf(list *ast.FieldList, renamed map[string]string) string {
	if list == nil {
		return ""
	}
	return "[" + strings.Join(typesOf(list, renamed), ",") + "]"
}

func signature(f *ast.FuncType, renamed map[string]string) string {
	return fmt.Sprintf("%s(%s)(%s)", constraintsOf(f.TypeParams, renamed),
		strings.Join(typesOf(f.Params, renamed), ","), strings.Join(typesOf(f.Results, renamed), ","))
}

// typesOf returns the type of each parameter.
func typesOf(list *ast.FieldList, renamed map[string]string) (types []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			types = append(types, text(field.Type, renamed))
		}
	}
	return types
}

// text prints a type, with its type parameters renamed.
func text(node ast.Expr, renamed map[string]string) string {
	ast.Inspect(node, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && renamed[ident.Name] != "" {
			ident.Name = renamed[ident.Name]
		}
		return true
	})
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return b.String()
}
