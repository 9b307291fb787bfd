package main

import (
	"html/template"
	"net/http"
)

// page serves the posts of a store.
type page struct {
	title, version string
	store          client
}

var layout = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html>
<head><title>{{.Title}}</title></head>
<body>
<h1>{{.Title}}</h1>
{{range .Posts}}<p>{{.}}</p>
{{end}}<footer>blog {{.Version}}</footer>
</body>
</html>
`))

func (p page) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		posts, err := p.store.posts(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = layout.Execute(w, struct {
			Title, Version string
			Posts          []string
		}{p.title, p.version, posts})
	})
	mux.HandleFunc("POST /comments", func(w http.ResponseWriter, r *http.Request) {
		if err := p.store.add(r.Context(), r.FormValue("text")); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	return mux
}
