"""The page of results, `results/site/index.html`: one file that needs no network and no server.

It holds every published number and every measured cell: 1.3 MB with 2,963 measured cells, of which
each adds about 157 bytes, so some 9 MB with 50,000.

`vendor` holds the core of DataTables (MIT) as npm publishes it: `npm pack datatables.net@3.1.5`,
of which `package/js/dataTables.min.js` and `package/License.txt` are kept as they are.
"""
