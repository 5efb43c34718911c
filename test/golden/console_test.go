package golden

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/console"
	"github.com/slipway-dev/slipway/internal/management"
)

// pages are those of the console, with objects of world.yaml.
var pages = []string{
	"/", "/hosts", "/hosts?racks=1&state=HostQuarantined", "/hosts/prod/h-1", "/hosts/prod/h-4", "/hosts/prod/h-7", "/hosts/prod/nothing", "/clusters", "/clusters/prod/held", "/clusters/prod/broken",
	"/pools/prod/held-pool", "/placement/prod/held-cp-3", "/decisions", "/runs/prod/held-upgrade", "/activity", "/find?q=held", "/nothing",
}

// What the pages of `slipway ui` say, with the objects of world.yaml.
func TestConsole(t *testing.T) {
	request := serveConsole(t, serve(t, filepath.Join("testdata", "world.yaml")))
	var page strings.Builder
	page.WriteString("# What the console shows of the objects of world.yaml: texts, and where links and forms lead\n")
	for _, path := range pages {
		fmt.Fprintf(&page, "\n== %s\n%s", path, steady(pageTexts(t, request, path)))
	}
	compare(t, "console.txt", page.String())
}

// pageTexts has the status of a page that is no success, and its texts, links and forms.
func pageTexts(t *testing.T, request func(string) (string, string), path string) string {
	t.Helper()
	status, page := request(path)
	text := texts(t, strings.NewReader(page))
	if status != "200 OK" {
		text = status + "\n" + text
	}
	return text
}

// serveConsole serves the console until the test ends; it returns what requests a page of it.
func serveConsole(t *testing.T, kubeconfig string) func(path string) (status, page string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := management.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	served, err := console.Listen(ctx, console.Config{Address: console.DefaultAddress, Rest: config, Client: c, Name: "of the test"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = served.Serve(ctx) }()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get(t, browser, served.URL())
	base, _, _ := strings.Cut(strings.TrimPrefix(served.URL(), "http://"), "/")
	return func(path string) (status, page string) { return get(t, browser, "http://"+base+path) }
}

func get(t *testing.T, browser *http.Client, url string) (status, page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Status, string(text)
}

// digest of an asset in its address, which a browser keeps it by
var digest = regexp.MustCompile(`[?&][vh]=[0-9a-f]+`)

// age0 is what a text says of an age.
var age0 = regexp.MustCompile(`^for|ago$`)

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// texts has a line for each text of a page, and for each address.
func texts(t *testing.T, page io.Reader) string {
	t.Helper()
	document, err := html.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for node := range document.Descendants() {
		switch {
		case node.Type == html.TextNode && node.Parent.Data == "time":
			// An age is another one each time; what comes before it is not.
			lines.WriteString(age0.FindString(node.Data) + "\n")
		case node.Type == html.ElementNode && node.Data == "time":
			lines.WriteString(attribute(node, "datetime") + " ")
		case node.Type == html.TextNode && node.Parent.Data != "script" && node.Parent.Data != "style":
			if text := strings.Join(strings.Fields(node.Data), " "); text != "" {
				lines.WriteString(text + "\n")
			}
		case node.Type == html.ElementNode:
			for _, attribute := range node.Attr {
				switch attribute.Key {
				case "href", "action", "placeholder", "title", "aria-label":
					fmt.Fprintf(&lines, "  %s %s\n", attribute.Key, digest.ReplaceAllString(attribute.Val, ""))
				}
			}
		}
	}
	return lines.String()
}
